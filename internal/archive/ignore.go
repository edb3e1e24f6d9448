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
	"strings"
)

// maxIgnoreFile bounds an ignore file.
const maxIgnoreFile = 1 << 20

// ignoreFiles returns the names of ignore files in the order of their rules.
func ignoreFiles() []string { return []string{".terraformignore", ".tfignore"} }

// rule is one line of an ignore file.
type rule struct {
	source  string // "modules/x/.tfignore:3: *.bak", for people
	dir     string // directory that the rule applies to, "." for the root
	include bool
	dirOnly bool
	pattern *regexp.Regexp // over the path relative to dir
}

func defaultRules() []rule {
	var rules []rule
	for _, line := range []string{".terraform/", "*.tfstate", "*.tfstate.*", "crash.log", "crash.*.log", ".DS_Store"} {
		if r, ok := parseRule(line); ok {
			r.source, r.dir = "left out by default: "+line, "."
			rules = append(rules, r)
		}
	}
	return rules
}

// alwaysDropped returns why a name never ships, or "".
func alwaysDropped(name string) string {
	switch {
	case strings.HasPrefix(name, ".git"):
		return "never shipped: .git*"
	case name == ".tfignore", name == ".terraformignore":
		return "never shipped: ignore file"
	}
	return ""
}

// readRules returns the rules in the ignore files of dir.
func readRules(tree fs.FS, dir string) ([]rule, error) {
	var rules []rule
	for _, name := range ignoreFiles() {
		file := path.Join(dir, name)
		info, err := fs.Stat(tree, file)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		b, err := readFile(tree, file, maxIgnoreFile)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, maxIgnoreFile+1)
		for n := 1; lines.Scan(); n++ {
			if r, ok := parseRule(lines.Text()); ok {
				r.source, r.dir = fmt.Sprintf("%s:%d: %s", file, n, lines.Text()), dir
				rules = append(rules, r)
			}
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

// excluded returns the rule that leaves out the file or directory, if there is
// one. Parents are not looked at, since the walk does not enter excluded ones.
func excluded(rules []rule, name string, isDir bool) (rule, bool) {
	for i := len(rules) - 1; i >= 0; i-- {
		if r := rules[i]; r.match(name, isDir) {
			return r, !r.include
		}
	}
	return rule{}, false
}

func (r rule) match(name string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if r.dir != "." {
		rest, ok := strings.CutPrefix(name, r.dir+"/")
		if !ok {
			return false
		}
		name = rest
	}
	return r.pattern.MatchString(name)
}

// parseRule parses a line as described in gitignore(5). It is false for blank
// lines, comments and patterns that can never match.
func parseRule(line string) (rule, bool) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if line == "" || strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	var r rule
	line, r.include = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	expression, ok := translate(line)
	if !ok || line == "" {
		return rule{}, false
	}
	if !anchored {
		expression = "(?:.*/)?" + expression
	}
	pattern, err := regexp.Compile("^(?s:" + expression + ")$")
	r.pattern = pattern
	return r, err == nil
}

// trimSpaces removes trailing spaces unless the last of them is escaped.
func trimSpaces(s string) string {
	for strings.HasSuffix(s, " ") && !strings.HasSuffix(s, `\ `) {
		s = s[:len(s)-1]
	}
	return s
}

// translate turns a glob into a regular expression.
func translate(glob string) (string, bool) {
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

// translateClass translates the bracket expression that s starts with and
// returns its length, 0 if it does not end.
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
		case c == '\\' || c == ']' || c == '[' || c == '^' || c == '&' || c == '~':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}
