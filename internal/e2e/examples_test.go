// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// renovateVar names a folder in which npm has installed Renovate, as for make matrix.
const renovateVar = "OKARA_MATRIX_RENOVATE"

// TestExamples runs the README of each folder of examples in a copy of the folder, like TestDocs.
// What is for a cluster TestPages of operator/internal/pages runs, and what is for CI systems TestCI.
func TestExamples(t *testing.T) {
	set := must(findTools())(t)
	pages := must(filepath.Glob(filepath.Join(set.root, "examples", "*", "README.md")))(t)
	if len(pages) < 10 {
		t.Errorf("there are %d examples", len(pages))
	}
	for _, page := range pages {
		folder := filepath.Dir(page)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			text := mustRead(t, page)
			if !strings.Contains(text, "\n**Executed**: ") {
				t.Errorf("%s does not say what is executed", page)
			}
			if strings.Contains(text, "tofu login") && !hasTools("curl") {
				t.Skip("curl is not here, which is the browser")
			}
			if strings.Contains(text, "\nsh run.sh\n") {
				t.Skip("it takes five minutes: make examples runs the script")
			}
			issuer := newIssuer(t, map[string]any{"sub": "anna", "groups": []string{"platform"}})
			set.runPage(t, text, folder, strings.NewReplacer("https://login.example.com", issuer.URL))
		})
	}
}
