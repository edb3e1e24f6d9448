// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// rivals is how many applies start at once.
const rivals = 6

// criticalConfig writes to a file of its own on entry and exit: overlaps are visible.
const criticalConfig = `terraform {
  backend "oci" {
    repository = %q
%s  }
}

resource "terraform_data" "critical" {
  triggers_replace = timestamp()

  provisioner "local-exec" {
    command = "echo enter $RIVAL >>%[3]s; sleep 0.3; echo leave $RIVAL >>%[3]s"
  }
}
`

// TestConcurrentApply starts applies at once in separate folders: none overlap, and with a lock
// timeout all finish.
func TestConcurrentApply(t *testing.T) {
	for _, tt := range []struct {
		name    string
		deletes bool
		rounds  int
		block   string // arguments
		apply   []string
	}{
		{"deletes", true, 5, "", []string{"-lock-timeout=10m"}},
		{"no-deletes", false, 2, "    lock_timeout = \"10m\"\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			testConcurrentApply(t, tt.deletes, tt.rounds, tt.block, tt.apply...)
		})
	}
}

func testConcurrentApply(t *testing.T, deletes bool, rounds int, block string, flags ...string) {
	set := must(findTools())(t)
	dir := t.TempDir()
	cmd := must(set.registryCommand(filepath.Join(dir, "registry"), deletes))(t)
	registry, addr := mustBoth(start(cmd))(t)
	t.Cleanup(registry.kill)
	log := filepath.Join(dir, "log")
	env := append(os.Environ(), "HOME="+dir, "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull, "OKARA_TOFU="+set.tofu)
	okara := func(rival int, args ...string) error {
		c := exec.Command(set.okara, append([]string{"tofu"}, args...)...)
		c.Dir, c.Env = filepath.Join(dir, fmt.Sprint(rival)), append(env, fmt.Sprintf("RIVAL=%d", rival))
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("rival %d: okara tofu %s: %w\n%s", rival, strings.Join(args, " "), err, out)
		}
		return nil
	}
	for rival := range rivals {
		folder := filepath.Join(dir, fmt.Sprint(rival))
		succeed(t, os.Mkdir(folder, 0o755))
		config := fmt.Sprintf(criticalConfig, addr+"/infra/state", block, log)
		succeed(t, os.WriteFile(filepath.Join(folder, "main.tf"), []byte(config), 0o644))
		succeed(t, okara(rival, "init"))
	}
	for range rounds {
		var group sync.WaitGroup
		errs := make([]error, rivals)
		for rival := range rivals {
			group.Go(func() { errs[rival] = okara(rival, append([]string{"apply", "-auto-approve"}, flags...)...) })
		}
		group.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	checkSections(t, log, rivals*rounds)
	for rival := range rivals { // main.tf and .terraform
		if entries, err := filepath.Glob(filepath.Join(dir, fmt.Sprint(rival), "*")); err != nil || len(entries) != 2 {
			t.Errorf("rival %d left %v, %v", rival, entries, err)
		}
	}
}

// checkSections fails if a second apply entered before the first one left.
func checkSections(t testing.TB, log string, entries int) {
	t.Helper()
	text := must(os.ReadFile(log))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2*entries {
		t.Errorf("got %d entries and exits, want %d", len(lines), 2*entries)
	}
	for i := 0; i+1 < len(lines); i += 2 {
		who, entered := strings.CutPrefix(lines[i], "enter ")
		if !entered || lines[i+1] != "leave "+who {
			t.Fatalf("two inside at once, line %d: %q then %q", i+1, lines[i], lines[i+1])
		}
	}
}
