// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"
)

func TestRepositoryOf(t *testing.T) {
	tests := []struct{ path, want string }{
		{"/v2/acme/x/manifests/1.0.0", "acme/x"},
		{"/v2/acme/x/blobs/uploads/", "acme/x"},
		{"/v2/acme/x/blobs/uploads/1234", "acme/x"},
		{"/v2/acme/x/tags/list", "acme/x"},
		{"/v2/acme/manifests/x/tags/list", "acme/manifests/x"},
		{"/v2/acme/tags/x/manifests/1", "acme/tags/x"},
		{"/v2/acme/blobs/manifests/1", "acme/blobs"},
		{"/v2/_catalog", ""},
	}
	for _, tt := range tests {
		if got := repositoryOf(tt.path); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/v2/": true, "/v1/modules/a/b/c/versions": true, "/a//b": false, "/a/../b": false, "/a/./b": false,
		"//": false, "": false, "a": false, "/a\x00b": false, "/a\nb": false, "/a/1.0.0+b.1/x": true, "/..": false,
	} {
		if got := cleanPath(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}
