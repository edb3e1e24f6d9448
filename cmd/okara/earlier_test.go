// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// earlierConfig lets a server end an instance.
const earlierConfig = `
instances {
  templates = %q
  unsealed  = true
}
executor "local" {
  program   = %q
  isolation = "none"
}
`

// TestEarlier reads what earlier programs stored: two versions of a module, one withdrawn, a state with two
// versions and a held lock, and an encrypted one; 0.1.0 also a provider, what states use, a bundle, and an
// instance, which ends.
func TestEarlier(t *testing.T) {
	for version, more := range map[string][]struct{ args, want string }{
		"6129cd06": {{"show acme/greeting/any@1.0.0 --json", "sha256:7d6087e0ef4cab0e8c6bb81c85246559773e942486613a49e1002b4424845590"}},
		"0.1.0": {
			{"show acme/greeting/any@1.0.0 --json", "sha256:008bff616f4ae55461fe6807958149b885bdbc34b71c75f8cd74dda669847a94"},
			{"verify acme/dns@1.0.0 --deep", "key 523E805A6AE02E94"},
			{"used-by acme/greeting/any", "shop"},
			{"bundle show BUNDLE", "acme/dns"},
		},
	} {
		t.Run(version, func(t *testing.T) {
			dir, user := t.TempDir(), newPerson(t)
			stored := must.Get(zip.OpenReader("testdata/" + version + ".zip"))(t)
			defer stored.Close()
			must.Succeed(t, os.CopyFS(filepath.Join(dir, "registry"), stored))
			config := user.file("okara.hcl", fmt.Sprintf(earlierConfig, t.TempDir(), tofutest.Tofu(t)))
			tokens := user.file("tokens", serveToken+" admin:*:** admin:instance:** read:*:** write:state:** use:instance:**\n")
			server := newServeProcess(t, nil, "--storage", dir, "--config", config, "--token-file", tokens)
			t.Cleanup(func() { _ = server.cmd.Wait() }) // the end of the test kills it
			host := strings.TrimPrefix(server.url, "http://")
			user.env["OKARA_REGISTRY"], user.env["OKARA_TOKEN"], user.env["OKARA_USERNAME"], user.env["OKARA_PASSWORD"] = host, serveToken, "ci", serveToken
			waitFor(t, "the server leads", func() bool { return user.okara("", "instance", "list", "--server", server.url).code == 0 })
			words := strings.NewReplacer("HOST", host, "URL", server.url, "KEY", user.file("key", strings.Repeat("0", 64)), "BUNDLE", filepath.Join(dir, "registry", "bundle.tar"))
			for _, c := range append(more, []struct{ args, want string }{
				{"list acme/greeting/any --json", `"yanked": true`},
				{"verify acme/greeting/any@1.1.0 --deep", "ok      digest"},
				{"state history HOST/state/shop --json", `"serial": 2`},
				{"state pull HOST/state/shop --version 1", `one"`},
				{"state locks HOST/state/shop", "5d0c0e0c-0000-4000-8000-000000000001"},
				{"state pull HOST/state/vault --key KEY", `one"`},
				{"state unlock HOST/state/shop --id 5d0c0e0c-0000-4000-8000-000000000001 --yes", ""},
			}...) {
				if out := user.mustOkara(strings.Fields(words.Replace(c.args))...); !strings.Contains(out, c.want) {
					t.Errorf("okara %s does not say %s: %s", c.args, c.want, out)
				}
			}
			if version == "0.1.0" { // the time of the instance has come, and one day that of its record
				user.okara("", "instance", "destroy", "yzxmtafgk8", "--yes", "--server", server.url)
				waitFor(t, "the instance is destroyed", func() bool {
					r := user.okara("", "instance", "show", "yzxmtafgk8", "--server", server.url)
					return r.code == 3 || r.code == 0 && strings.Contains(r.out, "destroyed")
				})
			}
		})
	}
}
