// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
)

// TestRegistryOfRuns shows that a run reaches the registry as the server does, with files
// named so that it finds them from its own folder, and that an unusable credential is refused.
func TestRegistryOfRuns(t *testing.T) {
	var credential oci.Credential
	l := &platform{base: server.Base{Env: server.Env{Outside: server.Outside{
		Transport: httpserve.TransportOptions{ClientCert: "client.pem", ClientKey: "/etc/client.key", CertDirs: []string{"/etc/docker/certs.d", "certs.d"}},
		OCI:       oci.Options{Credential: func(context.Context, string, string) (oci.Credential, error) { return credential, nil }},
	}}}}
	s := run.Spec{Repository: "registry.example.com/acme/instances/sandbox/vpc/abc"}
	credential = oci.Credential{Username: "ci", Password: "secret"}
	got := must.Get(l.registry(t.Context(), s))(t)
	here := must.Get(filepath.Abs("."))(t)
	want := sandbox.Registry{
		Prefix: "registry.example.com", Username: "ci", Password: "secret", ClientCert: filepath.Join(here, "client.pem"), ClientKey: "/etc/client.key",
		CertDirs: []string{"/etc/docker/certs.d", filepath.Join(here, "certs.d")},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	credential = oci.Credential{IdentityToken: "id"}
	if _, err := l.registry(t.Context(), s); err == nil || !strings.Contains(err.Error(), "identity token") || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("an identity token: %v", err)
	}
}
