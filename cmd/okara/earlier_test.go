// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestEarlier reads what commit 6129cd06 stored: two versions of a module, one withdrawn, a state with two
// versions and a held lock, and an encrypted one.
func TestEarlier(t *testing.T) {
	dir := t.TempDir()
	stored := must.Get(zip.OpenReader("testdata/6129cd06.zip"))(t)
	defer stored.Close()
	if err := os.CopyFS(dir, stored); err != nil {
		t.Fatal(err)
	}
	registry := must.Get(embedded.New(dir, embedded.Options{}))(t)
	server := httptest.NewServer(registry)
	t.Cleanup(func() { server.Close(); registry.Close() })
	host := strings.TrimPrefix(server.URL, "http://")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"list acme/greeting/any --json", `"yanked": true`},
		{"verify acme/greeting/any@1.1.0 --deep", "ok      digest"},
		{"show acme/greeting/any@1.0.0 --json", "sha256:7d6087e0ef4cab0e8c6bb81c85246559773e942486613a49e1002b4424845590"},
		{"state history " + host + "/state/shop --json", `"serial": 2`},
		{"state pull " + host + "/state/shop --version 1", `"one"`},
		{"state locks " + host + "/state/shop", "5d0c0e0c-0000-4000-8000-000000000001"},
		{"state pull " + host + "/state/vault --key " + key, `"one"`},
		{"state unlock " + host + "/state/shop --id 5d0c0e0c-0000-4000-8000-000000000001 --yes", ""},
	} {
		if out := mustOkara(t, append(strings.Fields(c.args), "--registry", host)...); !strings.Contains(out, c.want) {
			t.Errorf("okara %s does not say %s: %s", c.args, c.want, out)
		}
	}
}
