// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// ErrNoCommit says that the repository does not have the requested commit.
var ErrNoCommit = errors.New("commit not found in the git repository")

// ErrManyCommits says that only the newest thousand commits were read.
var ErrManyCommits = errors.New("more than a thousand commits")

// Bounds of what is read from a repository.
const (
	maxCommits = 1000
	maxSubject = 200 // bytes
)

// Commit is one commit.
type Commit struct {
	Subject string // its first line, at most 200 bytes
	Part    string // the part of the version that it raises: addr.Major, addr.Minor or addr.Patch
}

// Commits returns those after the revision since that changed something in dir, newest first; all
// of them if since is "". A revision that is not in the repository, as in a clone without history,
// is [ErrNoCommit]. Of more than a thousand it returns the newest thousand with [ErrManyCommits].
func Commits(ctx context.Context, dir, since string) ([]Commit, error) {
	span := "HEAD"
	if since != "" {
		if strings.HasPrefix(since, "-") {
			return nil, fmt.Errorf("%q: %w", since, ErrNoCommit)
		}
		if _, err := runGit(ctx, dir, "rev-parse", "--git-dir"); err != nil {
			return nil, err
		}
		commit, err := runGit(ctx, dir, "rev-parse", "--verify", "--quiet", since+"^{commit}")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.Excerpt(since), ErrNoCommit)
		}
		span = strings.TrimSpace(string(commit)) + "..HEAD"
	}
	out, err := runGit(ctx, dir, "log", "-z", "--no-show-signature", fmt.Sprint("--max-count=", maxCommits+1), "--format=%B", span, "--", ".")
	if err != nil {
		return nil, err
	}
	all := parseCommits(out)
	if len(all) > maxCommits {
		return all[:maxCommits], ErrManyCommits
	}
	return all, nil
}

// parseCommits reads messages that are separated by zero bytes.
func parseCommits(log []byte) []Commit {
	var all []Commit
	for message := range bytes.SplitSeq(log, []byte{0}) {
		if m := strings.TrimSpace(string(message)); m != "" {
			subject, _, _ := strings.Cut(m, "\n")
			all = append(all, Commit{Subject: text.Clip(text.Line(subject), maxSubject), Part: partOf(m)})
		}
	}
	return all
}

// Part returns the greatest part that one of the commits raises; addr.Patch without commits.
func Part(commits []Commit) string {
	part := addr.Patch
	for _, c := range commits {
		switch c.Part {
		case addr.Major:
			return addr.Major
		case addr.Minor:
			part = addr.Minor
		}
	}
	return part
}

var (
	typedSubject   = text.Pattern(`^([a-zA-Z]+)(\([^()\n]*\))?(!)?: `)
	breakingFooter = text.Pattern(`(?m)^BREAKING[ -]CHANGE: `)
)

// partOf reads a message by https://www.conventionalcommits.org/en/v1.0.0/: "!" before the
// colon or a paragraph that begins with BREAKING CHANGE raises the major version, the type
// feat the minor one, and everything else the patch.
func partOf(message string) string {
	typed := typedSubject().FindStringSubmatch(message)
	switch {
	case breakingFooter().MatchString(message) || typed != nil && typed[3] == "!":
		return addr.Major
	case typed != nil && strings.EqualFold(typed[1], "feat"):
		return addr.Minor
	}
	return addr.Patch
}

// Tracked returns the files below dir that git tracks, relative to it.
func Tracked(ctx context.Context, dir string) ([]string, error) {
	out, err := runGit(ctx, dir, "ls-files", "-z", "--", ".")
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), err
}

func runGit(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s in %s: %s", args[0], dir, cmp.Or(text.Excerpt(strings.TrimPrefix(strings.TrimSpace(problem.String()), "fatal: ")), err.Error()))
	}
	return out, nil
}
