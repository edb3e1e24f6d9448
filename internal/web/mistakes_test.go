// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestOptional: required is what has no default; optional attributes, and what takes no null, are
// marked.
//
// Shows: page-mistakes 3 | an optional input is shown as required | hashicorp/vscode-terraform#1582
func TestOptional(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": `
variable "of_nothing" {}
variable "of_null_allowed" {
  type     = string
  nullable = true
}
variable "of_object" { type = object({ name = string, size = optional(number, 3) }) }
variable "with_empty" { default = "" }
variable "with_null" {
  type    = string
  default = null
}
variable "with_false" {
  type     = bool
  default  = false
  nullable = false
}
variable "with_list" { default = [] }
variable "with_object" {
  type    = object({ name = optional(string) })
  default = {}
}
`})
	_, body := s.get(t, "/ui/modules/net/vpc/aws/1.0.0/inputs")
	_, list, found := strings.Cut(body, "<h2>Required</h2>")
	required, optional, both := strings.Cut(list, "<h2>Optional</h2>")
	if !found || !both {
		t.Fatalf("there are no two lists:\n%s", body)
	}
	for _, name := range []string{"of_nothing", "of_null_allowed", "of_object"} {
		if !strings.Contains(required, "<code>"+name) || strings.Contains(optional, "<code>"+name) {
			t.Errorf("%s is not listed as required:\n%s", name, list)
		}
	}
	for _, name := range []string{"with_empty", "with_null", "with_false", "with_list", "with_object"} {
		if strings.Contains(required, "<code>"+name) || !strings.Contains(optional, "<code>"+name) {
			t.Errorf("%s is not listed as optional:\n%s", name, list)
		}
	}
	must.Equal(t, "inputs do not accept null", strings.Count(body, ">not null<"), 1)
	if !strings.Contains(required, "optional(number, 3)") {
		t.Errorf("the type of an object lacks what may be left out:\n%s", required)
	}
}
