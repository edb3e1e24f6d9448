// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

// mustRepo opens a repository of a registry for tests.
func mustRepo(t *testing.T, host string) *oci.Repo {
	t.Helper()
	r, err := oci.OpenRepo(host+"/test/repo", oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
