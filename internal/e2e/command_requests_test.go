// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCommandRequests bounds the requests of commands, on distribution and the built-in registry;
// the first of a kind finds nothing there. Bounds may only fall.
func TestCommandRequests(t *testing.T) {
	eachTool(t, func(t *testing.T, c *cloud) {
		for n, registry := range []string{c.registry(), c.builtIn()} {
			asked := recorder{proxy: towards(t, registry)}
			host := inFront(t, asked.ServeHTTP)
			folder, tool := fmt.Sprint("folder-", n), "tofu"
			if c.tool != c.set.tofu {
				tool = "terraform"
			}
			c.env = []string{"OKARA_TOFU=" + c.tool, "OKARA_TERRAFORM=" + c.tool}
			c.configure(folder, fmt.Sprintf("  backend \"oci\" {\n    repository = %q\n  }\n", host+"/infra/state"), "true")
			publish := func(version string, at ...string) []string {
				text := fmt.Sprintf("# %s\nvariable \"x\" {}\n", version)
				succeed(t, os.MkdirAll(filepath.Join(c.dir, folder, "module"), 0o755))
				succeed(t, os.WriteFile(filepath.Join(c.dir, folder, "module", "main.tf"), []byte(text), 0o644))
				return append([]string{"publish", "module", "module", "net/vpc/aws", version}, at...)
			}
			for _, row := range []struct {
				args []string
				most [2]int // distribution, built-in
			}{
				{publish("1.0.0", "--registry", host), [2]int{23, 15}},
				{publish("1.1.0", "--registry", host), [2]int{16, 13}},
				{publish("1.1.0", "--registry", host), [2]int{7, 7}}, // it is published already, and each part is looked for
				{[]string{"list", "--registry", host}, [2]int{2, 2}},
				{[]string{tool, "init"}, [2]int{4, 4}},
				{[]string{tool, "plan"}, [2]int{11, 10}},
				{[]string{tool, "apply", "-auto-approve"}, [2]int{16, 14}},
				{[]string{tool, "init"}, [2]int{6, 6}},
				{[]string{tool, "plan"}, [2]int{10, 10}},
				{[]string{tool, "apply", "-auto-approve"}, [2]int{10, 10}}, // no changes
				{[]string{tool, "apply", "-auto-approve", "-var", "text=second"}, [2]int{15, 14}},
				{[]string{tool, "state", "list"}, [2]int{4, 4}},
				{[]string{tool, "state", "show", "terraform_data.one"}, [2]int{8, 8}},
				{[]string{tool, "output"}, [2]int{4, 4}},
				{[]string{"state", "list", host + "/infra/state"}, [2]int{2, 2}},
				{[]string{"state", "show", host + "/infra/state"}, [2]int{5, 5}},
			} {
				asked.take()
				began, most := time.Now(), row.most[n]
				c.step(folder, append([]string{c.set.okara}, row.args...)...)
				if time.Since(began) > sameList {
					most += 2 // a slow machine checks its lock again
				}
				if sent := asked.take(); len(sent) > most {
					t.Errorf("%v cost %d requests, want at most %d\n%s", row.args, len(sent), most, strings.Join(sent, "\n"))
				}
			}
		}
	})
}
