// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		glob, address string
		want          bool
	}{
		{"**", "", true}, {"**", "a/b/c", true}, {"*", "a/b", false}, {"a/*", "a/b", true}, {"a/**", "a", true},
		{"a/**/d", "a/b/c/d", true}, {"a/**/d", "a/d", true}, {"a/**/d", "a/b", false},
		{"**/b", "a/b", true}, {"**/b", "b/a", false}, {"a/**/c/**", "a/b/c/d", true}, {"**/**", "a", true}, {"a/", "a", false}, {"a/*", "a", false},
		{"terraform-*", "terraform-aws", true}, {"*-aws-*", "x-aws-y", true}, {"*aws", "awsx", false},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {"", "", true}, {"", "a", false},
	}
	for _, tt := range tests {
		if got := addr.Match(tt.glob, tt.address); got != tt.want {
			t.Errorf("%q matches %q: %v, want %v", tt.glob, tt.address, got, tt.want)
		}
	}
}

// FuzzCovers: what a covered glob matches, the covering one does.
func FuzzCovers(f *testing.F) {
	f.Add("net/**", "net/*/aws", "net/vpc/aws")
	f.Add("net/*/aws", "net/**", "net/vpc/gcp")
	f.Add("**/a*/**", "b/**/ab*", "b/c/abc")
	f.Add("**", "*", "")
	f.Fuzz(func(t *testing.T, glob, other, address string) {
		if len(glob)+len(other)+len(address) > 60 {
			return // Match takes long for many **
		}
		if addr.Covers(glob, other) && addr.Match(other, address) && !addr.Match(glob, address) {
			t.Errorf("%q covers %q, and does not match %q", glob, other, address)
		}
		if !addr.Covers("**", other) || !addr.Covers(glob, glob) {
			t.Errorf("** covers %q: %t, %q itself: %t", other, addr.Covers("**", other), glob, addr.Covers(glob, glob))
		}
	})
}
