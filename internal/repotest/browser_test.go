// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestBrowserTestsApart: tests with a browser have the build tag browser, and those of make test
// the name TestBrowser.
func TestBrowserTestsApart(t *testing.T) {
	starts := regexp.MustCompile(`\bwebtest\.New\(`)
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	apart := 0
	for _, path := range tracked(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		src := string(read(t, path))
		tagged := strings.Contains(src, "\n//go:build browser\n")
		if starts.MatchString(src) && !tagged {
			t.Errorf("%s starts a browser: give it the build tag browser", path)
		}
		for _, m := range name.FindAllStringSubmatch(src, -1) {
			test := m[1]
			if !tagged {
				continue
			}
			if apart++; !strings.HasPrefix(test, "TestBrowser") && test != "TestPictures" {
				t.Errorf("%s: make test runs only TestBrowser... with the build tag browser, not %s", path, test)
			}
		}
	}
	if apart < 15 {
		t.Errorf("%d tests with a browser", apart)
	}
}
