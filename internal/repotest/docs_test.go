// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxWords is the maximum number of words of a page about one task, including code.
const maxWords = 900

// references lists the reference pages, which may be longer.
var references = []string{"docs/reference/serve-reference.md", "docs/tests.md", "docs/reference/kubernetes-reference.md"}

// TestPages: each page is short, and linked from the index or CONTRIBUTING.md.
func TestPages(t *testing.T) {
	index := string(read(t, "docs/index.md")) + strings.ReplaceAll(string(read(t, "CONTRIBUTING.md")), "](docs/", "](")
	for _, name := range tracked(t) {
		page, inDocs := strings.CutPrefix(name, "docs/")
		if !inDocs || path.Ext(page) != ".md" || strings.HasPrefix(page, "changelog/") || strings.HasPrefix(page, "reference/commands/") {
			continue
		}
		if n := len(strings.Fields(string(read(t, name)))); n >= maxWords && !slices.Contains(references, name) {
			t.Errorf("%s has %d words; a page about one task has less than %d", name, n, maxWords)
		}
		if page != "index.md" && !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/index.md has no link to %s", page)
		}
	}
}

// TestFindings requires that the table of surprises has each script, and no other.
func TestFindings(t *testing.T) {
	table := string(read(t, "docs/reference/surprises.md"))
	scripts := 0
	for _, name := range tracked(t) {
		if strings.HasPrefix(name, "findings/") {
			scripts++
			if !strings.Contains(table, "(../../"+name+")") {
				t.Errorf("docs/reference/surprises.md has no row for %s", name)
			}
		}
	}
	if rows := strings.Count(table, "(../../findings/"); rows != scripts {
		t.Errorf("%d rows for %d scripts", rows, scripts)
	}
}

// fileBlock finds a block whose second word is the file that it is for.
var fileBlock = regexp.MustCompile("(?m)^```\\w+ (\\S*[./]\\S*)$")

// TestFileNames: the paragraph before a block names its file, which GitHub does not show.
func TestFileNames(t *testing.T) {
	found := 0
	for _, name := range tracked(t) {
		if path.Ext(name) != ".md" || !strings.HasPrefix(name, "docs/") && name != "README.md" {
			continue
		}
		page := string(read(t, name))
		for _, m := range fileBlock.FindAllStringSubmatchIndex(page, -1) {
			found++
			before := strings.TrimRight(page[:m[0]], "\n")
			if file := page[m[2]:m[3]]; !strings.Contains(before[strings.LastIndex(before, "\n\n")+1:], "`"+file+"`") {
				t.Errorf("%s: the paragraph before the block does not name `%s`", name, file)
			}
		}
	}
	if found == 0 {
		t.Error("no blocks for files found")
	}
}

// elsewhere matches states outside the place where they have rights of their own.
var elsewhere = regexp.MustCompile(`(REG|REGISTRY|HOST|host\}|\d|\.com)/(infra|infrastructure|team)/`)

// TestStatePlaces: pages keep states in state/NAME; elsewhere a server asks for its administration.
func TestStatePlaces(t *testing.T) {
	for _, name := range tracked(t) {
		if ext := path.Ext(name); ext != ".txtar" && ext != ".md" {
			continue
		}
		if found := elsewhere.Find(read(t, name)); found != nil {
			t.Errorf("%s has %q; states are in state/NAME", name, found)
		}
	}
}

var (
	// markdownLink finds the target of [text](target) and of ![alt](target).
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// quoted finds `text`.
	quoted = regexp.MustCompile("`([^` \n]+)`")
	// title finds the text of a heading.
	title = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// code finds fenced blocks, whose lines are no headings.
	code = regexp.MustCompile("(?ms)^```.*?^```$")
	// unanchored matches the characters that an anchor omits from its heading.
	unanchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestPlaces requires that each folder and file that the pages for contributors name exists.
func TestPlaces(t *testing.T) {
	names := tracked(t)
	found := 0
	for _, m := range quoted.FindAllStringSubmatch(string(read(t, "docs/architecture.md"))+string(read(t, "docs/adding.md")), -1) {
		if first, _, _ := strings.Cut(m[1], "/"); !slices.Contains(top, first) {
			continue // not a path
		}
		found++
		if !slices.ContainsFunc(names, func(name string) bool { return name == m[1] || strings.HasPrefix(name, m[1]+"/") }) {
			t.Errorf("docs/architecture.md or adding.md: there is no %s", m[1])
		}
	}
	if found == 0 {
		t.Error("the pages name no place")
	}
}

// TestLinks: each relative link has a target, heading included.
func TestLinks(t *testing.T) {
	names := tracked(t)
	for _, name := range names {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(string(read(t, name)), -1) {
			u, err := url.Parse(m[1])
			if err != nil || u.IsAbs() {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			switch {
			case !slices.ContainsFunc(names, func(n string) bool { return n == target || strings.HasPrefix(n, target+"/") }):
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			case u.Fragment != "" && !slices.Contains(anchors(t, target), u.Fragment):
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
}

// anchors returns the anchors of the headings of a page, as GitHub generates them.
func anchors(t *testing.T, name string) []string {
	t.Helper()
	var list []string
	for _, m := range title.FindAllStringSubmatch(code.ReplaceAllString(string(read(t, name)), ""), -1) {
		list = append(list, strings.ReplaceAll(strings.ToLower(unanchored.ReplaceAllString(m[1], "")), " ", "-"))
	}
	return list
}

// message matches the message that a section of a troubleshooting page is about.
var message = regexp.MustCompile("(?m)^### `(.+)`$")

// TestTroubleshooting requires that the program contains each message on these pages, and that a
// script has each of the tools from them.
func TestTroubleshooting(t *testing.T) {
	var source, scripts strings.Builder
	var pages []string
	for _, name := range tracked(t) {
		switch {
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			source.Write(read(t, name))
		case strings.HasSuffix(name, "/tool_words.txtar"):
			scripts.Write(read(t, name))
		case strings.Contains(name, "/troubleshooting") && strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/changelog/"):
			pages = append(pages, name)
		}
	}
	if len(pages) == 0 {
		t.Error("there is no page about messages")
	}
	for _, page := range pages {
		messages := message.FindAllStringSubmatch(string(read(t, page)), -1)
		if len(messages) == 0 {
			t.Errorf("%s has no message", page)
		}
		for _, m := range messages {
			said := strings.Contains(source.String(), m[1])
			if strings.HasSuffix(page, "-tools.md") {
				said = strings.Contains(scripts.String(), "\nsays '"+m[1]+"'\n")
			}
			if !said {
				t.Errorf("%s explains %q, which no command says", page, m[1])
			}
		}
	}
}

// TestInstallable: `go install` as in README.md names this module, without replacements.
func TestInstallable(t *testing.T) {
	mod := string(read(t, "go.mod"))
	if m := regexp.MustCompile(`(?m)^(replace|exclude)\b`).FindString(mod); m != "" {
		t.Errorf("go.mod has a line %q, so go install MODULE@VERSION refuses it", m)
	}
	module := strings.Fields(mod)[1]
	for _, name := range []string{"README.md", "docs/use/install.md"} {
		if !strings.Contains(string(read(t, name)), "go install "+module+"/cmd/okara@") {
			t.Errorf("%s does not install %s", name, module)
		}
	}
}
