// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// pulling returns a configuration file with one pull_through block.
func pulling(t *testing.T, providers, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	text := fmt.Sprintf("hostname = \"okara.test\"\n\npull_through %q {\n%s\n}\n", providers, body)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestServePullThroughConfig uses every setting of the block.
func TestServePullThroughConfig(t *testing.T) {
	url, _, _ := newServer(t, "--storage", t.TempDir(), "--config", pulling(t, "registry.opentofu.org/hashicorp/*", `
  versions          = ">= 3.0"
  platforms         = ["linux_amd64", "darwin_arm64"]
  from              = "https://10.1.2.3:8443/v1/providers/"
  private           = ["mirror.example.com", "10.1.2.4:8443"]
  allow_unsigned    = true
  allow_expired_key = true`))
	for path, want := range map[string]int{
		"/mirror/registry.opentofu.org/hashicorp/aws/index.json": 502, // refused: the address is not listed
		"/mirror/registry.opentofu.org/hashicorp/aws/2.9.0.json": 404,
		"/mirror/registry.opentofu.org/other/aws/index.json":     404,
	} {
		if got := status(t, http.DefaultClient, http.MethodGet, url+path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
