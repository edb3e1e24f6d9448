// SPDX-License-Identifier: Apache-2.0

package service

import "testing"

func TestCleanPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/v2/": true, "/v1/modules/a/b/c/versions": true, "/a//b": false, "/a/../b": false, "/a/./b": false,
		"//": false, "": false, "a": false, "/a\x00b": false, "/a\nb": false, "/a/1.0.0+b.1/x": true, "/..": false,
	} {
		if got := CleanPath(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}
