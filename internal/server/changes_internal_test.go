// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
)

// TestPushed checks the change that each tag means which a client may put or delete.
//
// Shows: mistakes 39
func TestPushed(t *testing.T) {
	l := addr.Layout{}
	l.Split = []string{"acme"}
	const sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, tt := range []struct {
		repository, reference, method, subject string
		address                                string
		want                                   access.Change
	}{
		{"modules/net/vpc/aws", "1.0.0", http.MethodPut, "", "", access.Change{Action: "publish", Version: "1.0.0"}},
		{"modules/net/vpc/aws", "1.0.0", http.MethodDelete, "", "", access.Change{Action: "delete", Version: "1.0.0"}},
		{"providers/acme/dns", "v", http.MethodPut, "", "", access.Change{Action: "push", Detail: "tag v"}},
		{"providers/acme/dns", sum, http.MethodPut, "", "", access.Change{}},
		{"providers/acme/dns", sum, http.MethodPut, "sha256:a", "", access.Change{Action: "attach", Digest: sum, Detail: "to sha256:a"}},
		{"providers/acme/dns", sum, http.MethodDelete, "", "", access.Change{Action: "delete", Digest: sum}},
		{"state/app", "state-dev-v7", http.MethodPut, "", "app/dev", access.Change{Action: "write", Version: "7"}},
		{"state/acme.prod", "state-default-v7", http.MethodPut, "", "acme/prod", access.Change{Action: "write", Version: "7"}},
		{"state/app", "state-dev-v7", http.MethodDelete, "", "app/dev", access.Change{Action: "delete", Version: "7"}},
		{"state/app", "state-dev", http.MethodPut, "", "app/dev", access.Change{}},
		{"state/app", "locked-dev-000000000007-0123456789abcdef", http.MethodPut, "", "app/dev", access.Change{}},
		{"state/app", "unlocked-dev-000000000007-0123456789abcdef-f", http.MethodPut, "", "app/dev", access.Change{Action: "force-unlock", Detail: "claim 0123456789abcdef"}},
		{"elsewhere", "latest", http.MethodPut, "", "elsewhere", access.Change{Action: "push", Detail: "tag latest"}},
		{"elsewhere", sum, http.MethodDelete, "", "elsewhere", access.Change{Action: "delete", Digest: sum}},
	} {
		address, got := pushed(l, tt.repository, tt.reference, tt.method, tt.subject)
		if d := cmp.Diff(tt.want, got); d != "" || address != tt.address {
			t.Errorf("%s %s:%s: address %q, want %q (-want +got):\n%s", tt.method, tt.repository, tt.reference, address, tt.address, d)
		}
	}
}
