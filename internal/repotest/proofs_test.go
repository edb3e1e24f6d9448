// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestProofsExist: what pages name as proof exists, where they say.
func TestProofsExist(t *testing.T) {
	tests, scripts := namesOfTests(t)
	reference := regexp.MustCompile("`((?:Test|Benchmark)\\w+)`|`([\\w/]+\\.txtar)`| in `([\\w/]+)`")
	for _, name := range []string{"docs/reference/compare-kubernetes.md", "SECURITY.md"} {
		page := must.Get(os.ReadFile("../../" + name))(t)
		named := 0
		for _, clause := range regexp.MustCompile(`[|;\n]`).Split(string(page), -1) {
			var listed []string // tests whose folder follows them
			for _, match := range reference.FindAllStringSubmatch(clause, -1) {
				test, script, folder := match[1], filepath.Base(match[2]), match[3]
				switch {
				case test != "":
					named++
					listed = append(listed, test)
					if tests[test] == nil {
						t.Errorf("%s names %s, which does not exist", name, test)
					}
				case folder == "":
					named++
					if !scripts[script] {
						t.Errorf("%s names %s, which does not exist", name, script)
					}
				}
				for i := 0; folder != "" && i < len(listed); i++ {
					if folders := tests[listed[i]]; folders != nil && !slices.Contains(folders, folder) {
						t.Errorf("%s: %s is in %v, not in %s", name, listed[i], folders, folder)
					}
				}
				if folder != "" {
					listed = nil
				}
			}
		}
		if named < 20 {
			t.Errorf("%s names %d tests and scripts", name, named)
		}
	}
}

// namesOfTests returns tests and benchmarks with their folders, and scripts.
func namesOfTests(t *testing.T) (tests map[string][]string, scripts map[string]bool) {
	t.Helper()
	tests, scripts = map[string][]string{}, map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
	must.Succeed(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2:
			return fs.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			scripts[e.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range pattern.FindAllStringSubmatch(string(src), -1) {
				tests[match[1]] = append(tests[match[1]], strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../"))
			}
		}
		return nil
	}))
	return tests, scripts
}
