// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
)

func TestParseSelection(t *testing.T) {
	tests := []struct{ text, kind, repository, versions string }{
		{"acme/dns", addr.KindProvider, "p/providers/acme/dns", ""},
		{"acme/dns@~> 1.0", addr.KindProvider, "p/providers/acme/dns", "~> 1.0"},
		{"registry.opentofu.org/hashicorp/time@0.14.2", addr.KindMirror, "p/mirror/registry.opentofu.org/hashicorp/time", "0.14.2"},
		{"localhost/acme/dns", addr.KindMirror, "p/mirror/localhost/acme/dns", ""},
		{"net/vpc/aws@1.4.0", addr.KindModule, "p/modules/net/vpc/aws", "1.4.0"},
		{"net/vpc/aws@one", "", "", ""},
		{"vpc", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			s, err := addr.ParseSelection(tt.text)
			if (err == nil) != (tt.kind != "") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if got := s.Repository(addr.Layout{Prefix: "p"}); s.Kind != tt.kind || got != tt.repository || s.Versions != tt.versions {
				t.Errorf("%s in %s, versions %q", s.Kind, got, s.Versions)
			}
		})
	}
}
