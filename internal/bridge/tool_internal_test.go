// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestParseCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args string
		want commandLine
	}{
		{"", commandLine{Dir: "."}},
		{"plan -out=x", commandLine{Dir: ".", Command: "plan", Rest: []string{"plan", "-out=x"}}},
		{"-chdir=a/b apply -lock-timeout=90s", commandLine{Dir: "a/b", Command: "apply", LockTimeout: new(90 * time.Second), Rest: []string{"-chdir=a/b", "apply", "-lock-timeout=90s"}}},
		{"apply --lock-timeout 5s p", commandLine{Dir: ".", Command: "apply", Plan: "p", LockTimeout: new(5 * time.Second), Rest: []string{"apply", "--lock-timeout", "5s", "p"}}},
		{"apply -lock-timeout=0s", commandLine{Dir: ".", Command: "apply", LockTimeout: new(time.Duration(0)), Rest: []string{"apply", "-lock-timeout=0s"}}},
		{"apply -lock-timeout=soon", commandLine{Dir: ".", Command: "apply", Rest: []string{"apply", "-lock-timeout=soon"}}},
		{"apply -var a=b -target x -auto-approve p q", commandLine{Dir: ".", Command: "apply", Part: true, Plan: "q", Variables: []string{"-var=a=b"}, Rest: []string{"apply", "-var", "a=b", "-target", "x", "-auto-approve", "p", "q"}}},
		{"init -backend-config=a=b -backend-config f --backend-config=c -reconfigure", commandLine{Dir: ".", Command: "init", Reconfigure: true, BackendConfig: []string{"a=b", "f", "c"}, Rest: []string{"init", "-reconfigure"}}},
		{"plan -var a=b -var-file=c --var=d=e", commandLine{Dir: ".", Command: "plan", Variables: []string{"-var=a=b", "-var-file=c", "-var=d=e"}, Rest: []string{"plan", "-var", "a=b", "-var-file=c", "--var=d=e"}}},
		{"plan -backend-config=a=b -chdir=x", commandLine{Dir: ".", Command: "plan", Rest: []string{"plan", "-backend-config=a=b", "-chdir=x"}}},
	} {
		must.Match(t, tt.args, parseCommandLine(strings.Fields(tt.args)), tt.want)
	}
}

// TestLockWait: the command's value takes precedence over the block's, even if it is 0s.
func TestLockWait(t *testing.T) {
	o := Options{Config: Config{Backend: backendblock.Backend{LockTimeout: time.Minute}}}
	must.Equal(t, "without a flag", o.lockWait(), time.Minute)
	if o.LockWait = parseCommandLine([]string{"plan", "-lock-timeout=0s"}).LockTimeout; o.lockWait() != 0 {
		t.Errorf("with 0s: %s", o.lockWait())
	}
}

func TestCheckTool(t *testing.T) {
	for _, tt := range []struct{ version, want string }{
		{"1.12.6", ""}, {"1.10.0", ""}, {"1.10.0-beta1", ""}, {"2.0.0-dev", ""},
		{"1.9.4", "1.10"}, {"1.9.0-rc1", "1.10"}, {"0.15.5", "1.10"}, {"new", "new"},
	} {
		dir := t.TempDir()
		tool, cache := filepath.Join(dir, "tool"), filepath.Join(dir, "cache")
		script := "#!/bin/sh\necho asked >>" + dir + "/asked\necho '{\"terraform_version\":\"" + tt.version + "\"}'\n"
		must.Succeed(t, os.WriteFile(tool, []byte(script), 0o755))
		for range 2 {
			err := checkTool(t.Context(), Tool{Path: tool, CacheDir: cache}, true)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v", tt.version, err)
			}
		}
		asked, err := os.ReadFile(filepath.Join(dir, "asked"))
		if times := strings.Count(string(asked), "asked"); err != nil || (times == 1) != (tt.want == "") {
			t.Errorf("%s: asked %d times, %v", tt.version, times, err)
		}
	}
}

func TestLockNote(t *testing.T) {
	note := lockNote(func(name string) string {
		return map[string]string{
			"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/infra", "GITHUB_RUN_ID": "7",
		}[name]
	}, "tofu", 7)
	if !strings.HasPrefix(note, "okara pid ") || !strings.Contains(note, ", tofu pid 7 on ") || !strings.HasSuffix(note, ", https://github.com/acme/infra/actions/runs/7") {
		t.Errorf("got %q", note)
	}
}
