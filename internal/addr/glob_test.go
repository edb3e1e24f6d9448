// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"strings"
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

// TestGlobAll compares with the definition of Match, for all short globs.
func TestGlobAll(t *testing.T) {
	globs, addresses := texts(5, "a", "*", "**", ""), texts(5, "a", "b", "")
	for _, glob := range globs {
		for _, address := range addresses {
			want := means(strings.Split(glob, "/"), strings.Split(address, "/"))
			if got := addr.Match(glob, address); got != want {
				t.Errorf("%q matches %q: %v, want %v", glob, address, got, want)
			}
		}
	}
}

// texts returns all texts of at most n segments.
func texts(n int, segments ...string) []string {
	all, last := segments, segments
	for range n - 1 {
		var longer []string
		for _, before := range last {
			for _, s := range segments {
				longer = append(longer, before+"/"+s)
			}
		}
		all, last = append(all[:len(all):len(all)], longer...), longer
	}
	return all
}

func means(glob, address []string) bool {
	switch {
	case len(glob) == 0:
		return len(address) == 0
	case glob[0] == "**":
		return means(glob[1:], address) || len(address) > 0 && means(glob, address[1:])
	}
	return len(address) > 0 && addr.MatchText(glob[0], address[0]) && means(glob[1:], address[1:])
}

// TestGlobOfManyStars checks that matching ends: each ** is tried from one
// position only.
//
// Shows: operator 3
func TestGlobOfManyStars(t *testing.T) {
	glob, address := strings.Repeat("**/a/", 200)+"b", strings.Repeat("a/", 400)+"a"
	if addr.Match(glob, address) {
		t.Error("what ends with b matches what ends with a")
	}
	if !addr.Match(glob, address+"/b") {
		t.Error("it does not match what ends with b")
	}
}

// FuzzCovers: the covering glob matches all that the covered one does.
func FuzzCovers(f *testing.F) {
	f.Add("net/**", "net/*/aws", "net/vpc/aws")
	f.Add("net/*/aws", "net/**", "net/vpc/gcp")
	f.Add("**/a*/**", "b/**/ab*", "b/c/abc")
	f.Add("**", "*", "")
	f.Fuzz(func(t *testing.T, glob, other, address string) {
		if addr.Covers(glob, other) && addr.Match(other, address) && !addr.Match(glob, address) {
			t.Errorf("%q covers %q, and does not match %q", glob, other, address)
		}
		if !addr.Covers("**", other) || !addr.Covers(glob, glob) {
			t.Errorf("** covers %q: %t, %q itself: %t", other, addr.Covers("**", other), glob, addr.Covers(glob, glob))
		}
	})
}
