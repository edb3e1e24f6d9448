// SPDX-License-Identifier: Apache-2.0

package buildinfo

import "testing"

// TestVersionOf: a program says the number only if it was built from its tag.
func TestVersionOf(t *testing.T) {
	const commit = "2d80ff9f0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	for _, c := range []struct {
		b          Info
		main, link string
		want       string
	}{
		{b: Info{Commit: commit}, main: "v0.1.0", want: "0.1.0"},                                             // a checkout of the tag
		{main: "v0.1.0", want: "0.1.0"},                                                                      // go install ...@v0.1.0
		{b: Info{Commit: commit}, main: "v0.0.0-20261130120000-2d80ff9f0f1e", link: "v0.1.0", want: "0.1.0"}, // the operator
		{b: Info{Commit: commit, Modified: true}, main: "v0.1.0+dirty", link: "v0.1.0", want: "0.1.0-dev+2d80ff9f.dirty"},
		{b: Info{Commit: commit}, main: "v0.0.0-20261130120000-2d80ff9f0f1e", want: "0.1.0-dev+2d80ff9f"},
		{b: Info{Commit: commit}, main: "v0.2.0", link: "v0.2.0", want: "0.1.0-dev+2d80ff9f"},
		{main: "v0.1.1-0.20261130120000-2d80ff9f0f1e", want: "0.1.0-dev+2d80ff9f"}, // go install ...@main
		{main: "(devel)", want: "0.1.0-dev"},
		{want: "0.1.0-dev"},
	} {
		if got := versionOf("0.1.0", c.b, c.main, c.link); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}
