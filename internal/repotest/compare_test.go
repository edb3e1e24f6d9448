// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompareNamesWhatExists checks that every test and script that the
// comparison names as proof is there.
func TestCompareNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile("../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, scripts := namesOfTests(t)
	named := regexp.MustCompile("`(Test\\w+|[\\w/]+\\.txtar)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Errorf("the page names %d tests and scripts", len(named))
	}
	for _, match := range named {
		if name := filepath.Base(match[1]); !tests[name] && !scripts[name] {
			t.Errorf("docs/compare.md names %s, which does not exist", name)
		}
	}
}

// namesOfTests returns the test functions and the script files of the tree.
func namesOfTests(t *testing.T) (tests, scripts map[string]bool) {
	t.Helper()
	tests, scripts = map[string]bool{}, map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
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
				tests[match[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, scripts
}
