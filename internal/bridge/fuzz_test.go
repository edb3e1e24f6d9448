// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/must"
)

// FuzzRead reads any text as a root module: an accepted one makes one valid override.
func FuzzRead(f *testing.F) {
	f.Add("main.tf", block(`repository = "registry.example.com/team/state"`))
	f.Add("main.tf", block("repository = \"h/{workspace}\"\nversioning {\nmax_versions = 3\n}\nencryption {\nkey_id = \"age1x\"\n}"))
	f.Add("main.tf.json", `{"terraform":{"backend":{"oci":{"repository":"h/r"}}}}`)
	f.Add("main.tf", "data \"terraform_remote_state\" \"a\" {\n backend = \"oci\"\n config = { repository = \"${var.h}/x\" }\n}")
	f.Add("main.tf", "data \"terraform_remote_state\" \"a\" {\n backend = \"oci\"\n config = local.cfg[\"a\"]\n}")
	f.Add("main.tf.json", `{"data":{"terraform_remote_state":{"a":{"backend":"oci","config":{"repository":"${var.h}/x"}}}}}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		if name != "main.tf" && name != "main.tf.json" && name != "x_override.tf" {
			return
		}
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		c, err := bridge.Read(dir, bridge.ReadOptions{Getenv: environment(nil)})
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without a message")
			}
			return
		}
		if !c.Used() {
			return
		}
		override := c.Override()
		if !bytes.Equal(override, c.Override()) {
			t.Error("two overrides of one configuration differ")
		}
		if _, diags := hclsyntax.ParseConfig(override, "override", hcl.InitialPos); diags.HasErrors() {
			t.Errorf("%v in\n%s\nof\n%s", diags, override, text)
		}
	})
}
