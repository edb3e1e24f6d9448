// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Bounds on ignore files: the largest of github.com/github/gitignore has 400 rules of 60 bytes.
const (
	maxIgnoreFile  = 128 << 10
	maxIgnoreFiles = 200  // in one tree
	maxRules       = 2000 // in one tree
	maxRule        = 256  // bytes
	maxWildcards   = 16   // in one rule

	// maxMatching bounds matching: the sum of rule length × path length of all comparisons, to
	// which the time of regexp is proportional.
	maxMatching = 4_000_000_000
)

// rule is one line of an ignore file.
type rule struct {
	source  string // "modules/x/.tfignore:3: *.bak", for messages
	dir     string // directory that the rule applies to, "." for the root
	include bool
	dirOnly bool
	base    bool           // no slash: pattern matches the last element
	size    int            // of the line
	pattern *regexp.Regexp // matches the path relative to dir
}

// ignoreBudget is the remaining allowance of the ignore files of one tree.
type ignoreBudget struct{ files, rules, matching int }

const byDefault = "excluded by default: "

func defaultRules() []rule {
	var rules []rule
	for _, line := range []string{".terraform/", "*.tfstate", "*.tfstate.*", "crash.log", "crash.*.log", ".DS_Store"} {
		if r, ok, _ := parseRule(line); ok {
			r.source = byDefault + line
			r.dir = "."
			rules = append(rules, r)
		}
	}
	return rules
}

// alwaysDropped returns why a name never ships, or "".
func alwaysDropped(name string) string {
	switch {
	case strings.HasPrefix(name, ".git"):
		return "never included: .git*"
	case name == ".tfignore", name == ".terraformignore":
		return "never included: ignore file"
	}
	return ""
}

func readRules(tree fs.FS, dir string, used *ignoreBudget, names ...string) ([]rule, error) {
	var rules []rule
	for _, name := range names {
		file := path.Join(dir, name)
		info, err := fs.Stat(tree, file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		b, err := readFile(tree, file, maxIgnoreFile)
		if err != nil {
			return nil, err
		}
		if used.files++; used.files > maxIgnoreFiles {
			return nil, fmt.Errorf("%s: more than %d ignore files: %w", file, maxIgnoreFiles, ErrTooLarge)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, maxIgnoreFile+1)
		for n := 1; lines.Scan(); n++ {
			r, ok, err := parseRule(lines.Text())
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
			if !ok {
				continue
			}
			if used.rules++; used.rules > maxRules {
				return nil, fmt.Errorf("%s:%d: more than %d ignore rules: %w", file, n, maxRules, ErrTooLarge)
			}
			r.source = fmt.Sprintf("%s:%d: %s", file, n, lines.Text())
			r.dir = dir
			rules = append(rules, r)
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return rules, nil
}

func readFile(tree fs.FS, name string, limit int64) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: more than %d bytes: %w", name, limit, ErrTooLarge)
	}
	return b, err
}

// decidingRule returns the rule that decides about an entry, and whether it excludes it. The walk
// enters no excluded parent.
func (used *ignoreBudget) decidingRule(rules []rule, name string, isDir bool) (r rule, ok bool, err error) {
	base := path.Base(name)
	for _, r := range slices.Backward(rules) {
		if r.dirOnly && !isDir {
			continue
		}
		text := base
		if !r.base {
			if text, ok = pathBelow(r.dir, name); !ok {
				continue
			}
		}
		if used.matching += r.size * len(text); used.matching > maxMatching {
			return rule{}, false, fmt.Errorf("%s: the ignore rules are too complex to match: %w", r.source, ErrTooLarge)
		}
		if r.pattern.MatchString(text) {
			return r, !r.include, nil // the rule may also include the entry
		}
	}
	return rule{}, false, nil
}

func pathBelow(dir, name string) (string, bool) {
	if dir == "." {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// parseRule parses a line of gitignore(5); not ok: blank, a comment, or never matching.
func parseRule(line string) (r rule, ok bool, err error) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if line == "" || strings.HasPrefix(line, "#") {
		return rule{}, false, nil
	}
	if len(line) > maxRule {
		return rule{}, false, fmt.Errorf("a rule of %d bytes, the limit is %d: %w", len(line), maxRule, ErrTooLarge)
	}
	if n := strings.Count(line, "*") + strings.Count(line, "?") + strings.Count(line, "["); n > maxWildcards {
		return rule{}, false, fmt.Errorf("a rule with %d wildcards, the limit is %d: %w", n, maxWildcards, ErrTooLarge)
	}
	r.size = len(line)
	line, r.include = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	expression, ok := translateGlob(line)
	if !ok || line == "" {
		return rule{}, false, nil
	}
	r.pattern, err = regexp.Compile("^(?s:" + expression + ")$")
	return r, err == nil, nil // an invalid class never matches
}

// trimSpaces removes trailing spaces unless the last of them is escaped.
func trimSpaces(s string) string {
	for strings.HasSuffix(s, " ") && !strings.HasSuffix(s, `\ `) {
		s = s[:len(s)-1]
	}
	return s
}

// translateGlob converts a glob to a regular expression.
func translateGlob(glob string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(glob); {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 3
		case rest == "**" && i > 0 && glob[i-1] == '/':
			b.WriteString(".+")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i++
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		case rest[0] == '[':
			class, n := translateClass(rest)
			if n == 0 {
				return "", false
			}
			b.WriteString(class)
			i += n
		case rest[0] == '\\':
			if len(rest) == 1 {
				return "", false
			}
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	return b.String(), true
}

// translateClass converts the bracket expression at the start of s; length 0: not closed.
func translateClass(s string) (string, int) {
	var b strings.Builder
	b.WriteByte('[')
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		b.WriteString("^/")
		i++
	}
	for first := i; i < len(s); i++ {
		switch c := s[i]; {
		case c == ']' && i > first:
			b.WriteByte(']')
			return b.String(), i + 1
		case c == '[' && i+1 < len(s) && s[i+1] == ':':
			end := strings.Index(s[i:], ":]")
			if end < 0 {
				return "", 0
			}
			b.WriteString(s[i : i+end+2])
			i += end + 1
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteString(`\` + string(s[i]))
		case c == '-':
			b.WriteByte('-')
		case strings.IndexByte(`\][^&~`, c) >= 0:
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}
