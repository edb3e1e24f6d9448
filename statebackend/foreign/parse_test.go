// SPDX-License-Identifier: Apache-2.0

package foreign_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/foreign"
)

func TestParseState(t *testing.T) {
	const (
		terraform = "application/vnd.terraform.state.v1"
		tofu      = "application/vnd.opentofu.state.v1"
	)
	full := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	manifest := func(kind, layer string, annotations map[string]string) oci.Manifest {
		return must.Get(oci.NewManifest(ocispec.Manifest{
			ArtifactType: kind, Config: artifact.EmptyConfig(),
			Layers: []oci.Descriptor{oci.BytesBlob(layer, []byte("{}")).Descriptor}, Annotations: annotations,
		}))(t)
	}
	theirs := func(ws string) map[string]string { return map[string]string{"org.terraform.workspace": ws} }
	ours := func(ws string) map[string]string { return map[string]string{"org.opentofu.workspace": ws} }
	const theirLayer, ourLayer = "application/vnd.terraform.statefile.v1", "application/vnd.opentofu.statefile.v1"
	tests := []struct {
		name, tag string
		m         oci.Manifest
		ok        bool
		workspace string
		n         int64
		encoding  string
		err       error
	}{
		{"typed for OpenTofu", "state-prod", manifest(tofu, ourLayer, ours("prod")), true, "prod", 0, "", nil},
		{"hash of 16 digits", "state-ws-" + full("a b")[:16], manifest(tofu, ourLayer, ours("a b")), true, "a b", 0, "", nil},
		{"our hash", "state-ws-" + full("a b")[:32] + "-v7", manifest(tofu, ourLayer+"+zstd", ours("a b")), true, "a b", 7, "+zstd", nil},
		{"pull request 3600", "state-prod", manifest(terraform, theirLayer, theirs("prod")), true, "prod", 0, "", nil},
		{"its version", "state-prod-v2", manifest(terraform, theirLayer+"+gzip", theirs("prod")), true, "prod", 2, "+gzip", nil},
		{"workspace that ends like a version", "state-prod-v2", manifest(terraform, theirLayer, theirs("prod-v2")), true, "prod-v2", 0, "", nil},
		{"version of such a workspace", "state-prod-v2-v3", manifest(terraform, theirLayer, theirs("prod-v2")), true, "prod-v2", 3, "", nil},
		{"terraform-provider-oras", "stver-" + full("prod") + "-v12", manifest(terraform, theirLayer, theirs("prod")), true, "prod", 12, "", nil},
		{"type in the config", "state-prod", configTyped(t, terraform, theirLayer, theirs("prod")), true, "prod", 0, "", nil},
		{"a lock", "state-prod", manifest("application/vnd.terraform.lock.v1", theirLayer, theirs("prod")), false, "", 0, "", nil},
		{"no state yet", "state-prod-v1", manifest(tofu, ourLayer, map[string]string{"org.opentofu.workspace": "prod", "vnd.okara.state.empty": "true"}), false, "", 0, "", nil},
		{"another layer", "state-prod", manifest(terraform, "text/html", theirs("prod")), false, "", 0, "", oci.ErrCorrupt},
		{"no workspace", "state-prod", manifest(terraform, theirLayer, nil), false, "", 0, "", oci.ErrCorrupt},
		{"another workspace", "state-prod", manifest(terraform, theirLayer, theirs("test")), false, "", 0, "", oci.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !foreign.IsStateTag(tt.tag) {
				t.Errorf("IsStateTag(%q) = false", tt.tag)
			}
			got, ok, err := foreign.ParseState(tt.tag, tt.m)
			if ok != tt.ok || !errors.Is(err, tt.err) {
				t.Fatalf("ok %v, error %v; want %v, %v", ok, err, tt.ok, tt.err)
			}
			if got.Workspace != tt.workspace || got.N != tt.n || got.Encoding != tt.encoding {
				t.Errorf("workspace %q, version %d, encoding %q; want %q, %d, %q", got.Workspace, got.N, got.Encoding, tt.workspace, tt.n, tt.encoding)
			}
		})
	}
	for _, tag := range []string{"latest", "locked-prod", "okara-doctor", "state", "v1.0.0"} {
		if foreign.IsStateTag(tag) {
			t.Errorf("IsStateTag(%q) = true", tag)
		}
	}
}

// configTyped returns a manifest in the form before artifactType existed.
func configTyped(t *testing.T, kind, layer string, annotations map[string]string) oci.Manifest {
	t.Helper()
	return must.Get(oci.NewManifest(ocispec.Manifest{
		Config: oci.BytesBlob(kind, []byte("{}")).Descriptor,
		Layers: []oci.Descriptor{oci.BytesBlob(layer, []byte("{}")).Descriptor}, Annotations: annotations,
	}))(t)
}

func FuzzState(f *testing.F) {
	f.Add("state-prod-v2", "prod")
	f.Add("stver-x-v1", "x")
	f.Add("state-ws-0123456789abcdef", "ü/ ")
	f.Fuzz(func(t *testing.T, tag, workspace string) {
		m, err := oci.NewManifest(ocispec.Manifest{
			ArtifactType: "application/vnd.terraform.state.v1", Config: artifact.EmptyConfig(),
			Layers:      []oci.Descriptor{oci.BytesBlob("application/vnd.terraform.statefile.v1", []byte("{}")).Descriptor},
			Annotations: map[string]string{"org.terraform.workspace": workspace},
		})
		if err != nil {
			return
		}
		s, ok, err := foreign.ParseState(tag, m)
		if ok != (err == nil) {
			t.Fatalf("ok %v with error %v", ok, err)
		}
		if ok && (s.N < 0 || s.Workspace == "" || !strings.Contains(tag, "-")) {
			t.Errorf("%q gives %+v", tag, s)
		}
	})
}
