// SPDX-License-Identifier: Apache-2.0

package embedded

import "testing"

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
		if got := RepositoryOf(tt.path); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
}
