// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/rights"
)

// TestOptional lists an input as required exactly if it has no default, whatever its
// default is, and the optional attributes of an object type as in the type.
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
variable "with_false" { default = false }
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
	if !strings.Contains(required, "optional(number, 3)") {
		t.Errorf("the type of an object lacks what may be left out:\n%s", required)
	}
}

// TestSubmodules shows a submodule, and an example without a README.
//
// Shows: page-mistakes 4 | an example without README is an error, submodules are not found |
// opentofu/registry-ui#188, #273
func TestSubmodules(t *testing.T) {
	s := New(t, rights.AnonymousRead()...)
	s.module(t, "net/vpc/aws", "1.0.0", map[string]string{
		"main.tf": "", "modules/outer/main.tf": `variable "outside" {}`,
		"examples/bare/main.tf": `module "x" { source = "../.." }`,
	})
	const version = "/ui/modules/net/vpc/aws/1.0.0"
	_, body := s.get(t, version)
	for path, has := range map[string]string{
		"/submodules/modules/outer": "outside", "/examples/examples/bare": "A directory of",
	} {
		if !strings.Contains(body, strings.TrimPrefix(version, "/ui/")+path+`"`) {
			t.Errorf("the module does not lead to %s:\n%s", path, body)
		}
		if status, page := s.get(t, version+path); status != http.StatusOK || !strings.Contains(page, has) {
			t.Errorf("%s: status %d, no %q in\n%s", path, status, has, page)
		}
	}
}
