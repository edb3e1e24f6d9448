// SPDX-License-Identifier: Apache-2.0

package checkout_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/checkout"
	"github.com/seed-141914ff/okara/internal/must"
)

// repository makes a commit for each message, in the folder of its first word: "vpc feat: zones".
func repository(t *testing.T, commits ...string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	for _, c := range commits {
		folder, message, _ := strings.Cut(c, " ")
		file := filepath.Join(dir, folder, "main.tf")
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("# "+message), 0o644)))
		git("add", ".")
		git("commit", "-q", "-m", message)
		if message == "begin" {
			git("tag", "begun")
		}
	}
	return dir
}

// TestCommits lists only commits in the folder after the revision, newest first.
func TestCommits(t *testing.T) {
	dir := repository(t, "vpc begin", "dns feat!: other", "vpc feat(aws): zones\n\nMore of it.", "vpc fix: a word")
	vpc := filepath.Join(dir, "vpc")
	got, err := checkout.Commits(t.Context(), vpc, "begun")
	want := []checkout.Commit{{Subject: "fix: a word", Part: addr.Patch}, {Subject: "feat(aws): zones", Part: addr.Minor}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	must.Equal(t, "they ask for", checkout.Part(got), addr.Minor)
	if all, err := checkout.Commits(t.Context(), vpc, ""); len(all) != 3 || err != nil {
		t.Error(all, err)
	}
	for _, unknown := range []string{"0123456789012345678901234567890123456789", "--output=x", "no such"} {
		if _, err := checkout.Commits(t.Context(), vpc, unknown); !errors.Is(err, checkout.ErrNoCommit) {
			t.Errorf("%s: %v", unknown, err)
		}
	}
	for _, since := range []string{"", "HEAD"} {
		if _, err := checkout.Commits(t.Context(), t.TempDir(), since); err == nil || errors.Is(err, checkout.ErrNoCommit) {
			t.Errorf("of a folder without a repository since %q: %v", since, err)
		}
	}
}

// TestTooManyCommits: an unread message may raise any part of the version.
func TestTooManyCommits(t *testing.T) {
	dir := repository(t, "vpc begin")
	var stream strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&stream, "commit refs/heads/long\ncommitter a <a@example.com> %d +0000\ndata 1\nx", i)
		if i == 0 {
			stream.WriteString("from begun^0\n")
		}
		fmt.Fprintf(&stream, "M 644 inline vpc/main.tf\ndata %d\n%d\n", len(fmt.Sprint(i)), i)
	}
	for _, args := range [][]string{{"fast-import", "--quiet"}, {"checkout", "-q", "long"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(stream.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	vpc := filepath.Join(dir, "vpc")
	if all, err := checkout.Commits(t.Context(), vpc, "begun"); len(all) != 1000 || !errors.Is(err, checkout.ErrManyCommits) {
		t.Error(len(all), err)
	}
	if all, err := checkout.Commits(t.Context(), vpc, "HEAD~1000"); len(all) != 1000 || err != nil {
		t.Error(len(all), err)
	}
}

// TestPart maps messages to the part of the version that they raise.
func TestPart(t *testing.T) {
	for message, want := range map[string]string{
		"vpc feat: x": addr.Minor, "vpc Feat(a b): x": addr.Minor, "vpc feat!: x": addr.Major, "vpc fix(a)!: x": addr.Major,
		"vpc chore: x\n\nBREAKING CHANGE: y": addr.Major, "vpc chore: x\n\nBREAKING-CHANGE: y": addr.Major,
		"vpc features: x": addr.Patch, "vpc x": addr.Patch, "vpc feat x": addr.Patch, "vpc says BREAKING CHANGE: no": addr.Patch,
	} {
		got, err := checkout.Commits(t.Context(), filepath.Join(repository(t, message), "vpc"), "")
		if err != nil || len(got) != 1 || got[0].Part != want {
			t.Errorf("%q: %v %v, want %s", message, got, err, want)
		}
	}
}
