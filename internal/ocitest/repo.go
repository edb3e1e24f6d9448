// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// Repo opens some repository of the registry at host.
func Repo(t testing.TB, host string) *oci.Repo {
	t.Helper()
	return must.Get(oci.OpenRepo(host+"/test/repo", oci.Options{}))(t)
}
