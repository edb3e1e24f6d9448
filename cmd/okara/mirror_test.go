// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestMirrorOtherContent: a zip changed at the origin; a depot takes over.
func TestMirrorOtherContent(t *testing.T) {
	const name = "registry.example.com/acme/dns"
	host := ocitest.New(t, ocitest.Quirks{})
	mirror := func(size int) outcome {
		packed := t.TempDir()
		must.Succeed(t, os.CopyFS(filepath.Join(packed, name), os.DirFS(newRelease(t, 2, size))))
		return okara(t, "mirror", name, "--from", packed, "--registry", host, "--allow-unsigned")
	}
	if o := mirror(1 << 10); o.code != cli.ExitOK {
		t.Fatal(o.err)
	}
	both := regexp.MustCompile(`stored sha256:[0-9a-f]{64}, yours sha256:[0-9a-f]{64}`)
	if o := mirror(2 << 10); o.code != cli.ExitConflict || !both.MatchString(o.out) || !strings.Contains(o.err, "hint: published versions never change") {
		t.Errorf("exit %d\n%s%s", o.code, o.out, o.err)
	}

	git, tag := newGitModule(t)
	tag("v1.0.0")
	file := filepath.Join(t.TempDir(), "depot.hcl")
	text := fmt.Sprintf("module \"net/vpc/aws\" {\n  source = \"git::file://%s\"\n}\n", git)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	for content, want := range map[string]int{"# v1.0.0\n": cli.ExitOK, "# somebody's own\n": cli.ExitConflict} {
		host, dir := ocitest.New(t, ocitest.Quirks{}), t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(content), 0o600))
		if o := okara(t, "publish", "module", dir, "net/vpc/aws", "1.0.0", "--registry", host); o.code != cli.ExitOK {
			t.Fatal(o.err)
		}
		for range 2 { // repeating the command takes nothing over
			o := okara(t, "depot", "apply", file, "--registry", host)
			if o.code != want || want == cli.ExitConflict && !both.MatchString(o.out) {
				t.Errorf("%q: exit %d, want %d\n%s%s", content, o.code, want, o.out, o.err)
			}
		}
	}
}

// TestMirrorStates: a valid version, an unusable, a missing one.
func TestMirrorStates(t *testing.T) {
	const good, bad, gone = "registry.example.com/acme/dns", "registry.example.com/acme/bad", "registry.example.com/acme/gone"
	packed, host := t.TempDir(), ocitest.New(t, ocitest.Quirks{})
	must.Succeed(t, os.CopyFS(filepath.Join(packed, good), os.DirFS(newRelease(t, 2, 1<<10))))
	must.Succeed(t, os.Mkdir(filepath.Join(packed, bad), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(packed, bad, "terraform-provider-bad_2.0.0_linux_amd64.zip"), []byte("no zip"), 0o600))
	all := []string{"mirror", good, bad, gone, "--from", packed, "--registry", host}
	for _, test := range []struct {
		name    string
		args    []string
		code    int
		want    map[string]string
		summary string
	}{
		{
			"planned", []string{"mirror", good, bad, "--from", packed, "--registry", host, "--dry-run"}, cli.ExitOK,
			map[string]string{good: "planned", bad: "planned"}, "2 planned, 0 skipped, 0 failed",
		},
		{
			"unsigned", all, cli.ExitPartly,
			map[string]string{good: "refused", bad: "refused", gone: "failed"}, "0 new, 0 skipped, 2 refused, 1 failed",
		},
		{
			"first", append(all, "--allow-unsigned"), cli.ExitPartly,
			map[string]string{good: "new", bad: "refused", gone: "failed"}, "1 new, 0 skipped, 1 refused, 1 failed",
		},
		{
			"again", []string{"mirror", good, "--from", packed, "--registry", host}, cli.ExitOK,
			map[string]string{good: "skipped"}, "0 new, 1 skipped, 0 refused, 0 failed",
		},
		{
			"without a platform", []string{"mirror", good, "--from", packed, "--registry", host, "--platform", "plan9_arm"}, cli.ExitOK,
			map[string]string{good: "skipped"}, "the origin has no package for plan9_arm",
		},
		{
			"planned again", []string{"mirror", good, bad, "--from", packed, "--registry", host, "--dry-run"}, cli.ExitOK,
			map[string]string{good: "skipped", bad: "planned"}, "1 planned, 1 skipped, 0 failed",
		},
		{
			"no origin", []string{"mirror", good, "--from", "https://127.0.0.1:1/", "--registry", host}, cli.ExitPartly,
			map[string]string{good: "failed"}, "0 new, 0 skipped, 0 refused, 1 failed",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := okara(t, append(test.args, "--json")...)
			var results []mirrorResult
			if err := json.Unmarshal([]byte(o.out), &results); err != nil {
				t.Fatalf("%v\n%s%s", err, o.out, o.err)
			}
			got := map[string]string{}
			for _, r := range results {
				got[r.Address] = r.State
				if plain := r.State == "new" || r.State == "planned"; plain != (r.Reason == "") {
					t.Errorf("%s is %s, reason %q", r.Address, r.State, r.Reason)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || o.code != test.code || !strings.Contains(o.err, test.summary) {
				t.Errorf("exit %d\n%s\n%s", o.code, diff, o.err)
			}
		})
	}
}
