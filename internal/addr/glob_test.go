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
