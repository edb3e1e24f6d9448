// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// The page about what the tests show is generated from comments above them:
//
//	// Shows: SECTION ROW | CELL | CELL
//	// ... more of the last cell.
//
// One test of each row defines its cells, the others name only the section and row.
// Scripts use the same format behind "# ". The text around the rows, and the heads of the
// tables, are in testdata/tests.txt, where a line "<!-- rows of SECTION -->" stands for
// the rows.
const (
	showsPage     = "../../docs/tests.md"
	showsTemplate = "testdata/tests.txt"
)

// shown is a row of a table: a promise and the tests that show it.
type shown struct {
	section, row string
	cells        []string
	tests        map[string][]string // names, by folder
}

// TestShowsPage holds docs/tests.md to the comments it is made from; OKARA_UPDATE writes it.
func TestShowsPage(t *testing.T) {
	template := must.Get(os.ReadFile(showsTemplate))(t)
	rows := collectShows(t)
	want := renderShows(t, string(template), rows)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		for _, s := range slices.SortedFunc(maps.Values(rows[name]), compareShown) {
			if len(s.cells) == 0 {
				t.Errorf("%s %s: no test says what it is", name, s.row)
			}
			t.Logf("%s %s: %s: %s", name, s.row, strings.Join(s.cells, "; "), s.shownBy())
		}
	}
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(showsPage, []byte(want), 0o644))
		return
	}
	if got := must.Get(os.ReadFile(showsPage))(t); string(got) != want {
		t.Error("docs/tests.md is not what the comments \"Shows:\" of the tests say: run make docs")
	}
}

// collectShows reads the comments of all tests and scripts.
func collectShows(t *testing.T) map[string]map[string]*shown {
	t.Helper()
	rows := map[string]map[string]*shown{}
	goTest := regexp.MustCompile(`(?m)((?:^//.*\n)+)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	script := regexp.MustCompile(`\A(?:#.*\n)+`)
	for _, path := range walked(t) {
		folder := filepath.ToSlash(filepath.Dir(path))
		switch {
		case strings.HasSuffix(path, "_test.go") && filepath.Base(path) != "shows_test.go":
			src := string(read(t, path))
			for _, m := range goTest.FindAllStringSubmatch(src, -1) {
				addShows(t, rows, path, m[1], "//", folder, m[2])
			}
			if n := strings.Count(src, "\n// Shows: "); n != countShows(goTest, src) {
				t.Errorf("%s: a comment \"Shows:\" is above no test", path)
			}
		case strings.HasSuffix(path, ".txtar"):
			addShows(t, rows, path, script.FindString(string(read(t, path))), "#", folderOfScript(folder), filepath.Base(path))
		}
	}
	return rows
}

// folderOfScript returns the package that runs the scripts of a folder.
func folderOfScript(folder string) string {
	if before, _, ok := strings.Cut(folder, "/testdata"); ok {
		return before
	}
	return folder
}

func countShows(goTest *regexp.Regexp, src string) int {
	n := 0
	for _, m := range goTest.FindAllStringSubmatch(src, -1) {
		n += strings.Count("\n"+m[1], "\n// Shows: ")
	}
	return n
}

// addShows adds the rows in the comment of one test, which is in a folder.
func addShows(t *testing.T, rows map[string]map[string]*shown, path, comment, mark, folder, test string) {
	t.Helper()
	list, err := parseShows(comment, mark)
	if err != nil {
		t.Errorf("%s: %s: %v", path, test, err)
	}
	for _, s := range list {
		section := rows[s.section]
		if section == nil {
			section = map[string]*shown{}
			rows[s.section] = section
		}
		row := section[s.row]
		if row == nil {
			row = &shown{section: s.section, row: s.row, tests: map[string][]string{}}
			section[s.row] = row
		}
		if s.cells != nil && row.cells != nil {
			t.Errorf("%s: %s says anew what %s %s is: %q", path, test, s.section, s.row, s.cells)
		}
		if s.cells != nil {
			row.cells = s.cells
		}
		row.tests[folder] = append(row.tests[folder], test)
	}
}

// parseShows parses the paragraphs "Shows:" of a comment.
func parseShows(comment, mark string) ([]shown, error) {
	var texts []string
	open := false
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(line, mark))
		switch text, begins := strings.CutPrefix(line, "Shows: "); {
		case begins:
			texts, open = append(texts, text), true
		case line == "":
			open = false
		case open:
			texts[len(texts)-1] += " " + line
		}
	}
	var list []shown
	for _, text := range texts {
		parts := strings.Split(text+" ", " | ")
		key := strings.Fields(parts[0])
		if len(key) != 2 {
			return nil, fmt.Errorf("say \"Shows: SECTION ROW | CELL\" in place of %q", text)
		}
		s := shown{section: key[0], row: key[1]}
		for _, cell := range parts[1:] {
			if cell = strings.TrimSpace(cell); cell == "" || cell == "|" {
				return nil, fmt.Errorf("an empty cell in %q", text)
			}
			s.cells = append(s.cells, cell)
		}
		list = append(list, s)
	}
	return list, nil
}

// renderShows inserts the rows into the template of the page.
func renderShows(t *testing.T, template string, rows map[string]map[string]*shown) string {
	t.Helper()
	mark := regexp.MustCompile(`^<!-- rows of ([\w-]+) -->$`)
	columns := 0
	var b strings.Builder
	for line := range strings.Lines(template) {
		text := strings.TrimSuffix(line, "\n")
		m := mark.FindStringSubmatch(text)
		if m == nil {
			if strings.HasPrefix(text, "| ") {
				columns = strings.Count(text, " | ") + 1
			}
			b.WriteString(line)
			continue
		}
		section := rows[m[1]]
		delete(rows, m[1])
		if len(section) == 0 {
			t.Errorf("no test shows anything of %s", m[1])
		}
		for _, s := range slices.SortedFunc(maps.Values(section), compareShown) {
			if len(s.cells)+2 != columns {
				t.Errorf("%s %s has %d cells in place of %d: one test has to say them", s.section, s.row, len(s.cells), columns-2)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s.row, strings.Join(s.cells, " | "), s.shownBy())
		}
	}
	return b.String()
}

// compareShown orders rows by number: 4, 4a, 12, K1.
func compareShown(a, b *shown) int {
	parts := regexp.MustCompile(`^(\D*)(\d*)(.*)$`)
	x, y := parts.FindStringSubmatch(a.row), parts.FindStringSubmatch(b.row)
	m, _ := strconv.Atoi(x[2])
	n, _ := strconv.Atoi(y[2])
	return cmp.Or(cmp.Compare(x[1], y[1]), cmp.Compare(m, n), cmp.Compare(x[3], y[3]))
}

// shownBy lists tests and scripts with their folders.
func (s *shown) shownBy() string {
	folders := make([]string, 0, len(s.tests))
	for _, folder := range slices.Sorted(maps.Keys(s.tests)) {
		names := slices.Compact(slices.Sorted(slices.Values(s.tests[folder])))
		folders = append(folders, "`"+strings.Join(names, "`, `")+"` in `"+folder+"`")
	}
	return strings.Join(folders, "; ")
}
