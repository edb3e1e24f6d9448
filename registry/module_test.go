// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/registry"
)

// TestModuleAnswer checks each form of the answer, for each client, with a
// JSON body for every 200.
//
// Shows: registries 1 | 200 without JSON on a module download | terrakube-io/terrakube#669,
// terralist/terralist#223, opentofu/opentofu#2078
func TestModuleAnswer(t *testing.T) {
	const (
		tofu12    = "OpenTofu/1.12.6"
		tofu11    = "OpenTofu/1.11.0"
		tofu9     = "OpenTofu/1.9.1"
		terraform = "Terraform/1.11.4 (+https://www.terraform.io)"
	)
	tests := []struct {
		answer, agent string
		status        int
		location      string // prefix
	}{
		{"portable", tofu12, 204, ""}, {"portable", terraform, 204, ""}, {"portable", "", 204, ""},
		{"oci", tofu12, 200, "oci://registry.example.com/acme/modules/net/vpc/aws?digest=sha256:"},
		{"oci", tofu9, 204, ""}, {"oci", terraform, 204, ""}, {"oci", "OpenTofu/x", 204, ""},
		{"direct", tofu12, 200, "../../../../../../archives/auth/acme/modules/net/vpc/aws/"},
		{"direct", tofu11, 204, ""}, {"direct", terraform, 204, ""},
	}
	for _, tt := range tests {
		t.Run(tt.answer+" "+tt.agent, func(t *testing.T) {
			f := newFront(t, func(o *server.Options) {
				private(t)(o)
				o.Modules = registry.Modules{Answer: tt.answer, Registry: "registry.example.com"}
			})
			f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
			at := f.url(t, "/v1/modules/net/vpc/aws/1.0.0/download")
			resp, body := ask(t, http.MethodGet, at, "User-Agent", tt.agent, "Authorization", "Bearer "+readerToken)
			if resp.StatusCode != tt.status || (tt.status == 204) != (len(body) == 0) {
				t.Fatalf("%d with %q, want %d", resp.StatusCode, body, tt.status)
			}
			link := must.Fixed(at.Parse(resp.Header.Get("X-Terraform-Get")))
			if get, _ := ask(t, http.MethodGet, link); get.StatusCode != 200 {
				t.Errorf("the header's link: %d", get.StatusCode)
			}
			if (resp.Header.Get("Vary") == "") != (tt.answer == "portable") {
				t.Errorf("Vary: %q", resp.Header.Get("Vary"))
			}
			if tt.status == 204 {
				return
			}
			doc := decode[struct {
				Location       string
				UseCredentials *bool `json:"use_registry_credentials"`
			}](t, body)
			if !strings.HasPrefix(doc.Location, tt.location) {
				t.Errorf("location %q, want %s…", doc.Location, tt.location)
			}
			if tt.answer == "direct" {
				if doc.UseCredentials == nil || !*doc.UseCredentials {
					t.Errorf("use_registry_credentials: %s", body)
				}
				get, _ := ask(t, http.MethodGet, must.Fixed(at.Parse(doc.Location)), "Authorization", "Bearer "+readerToken)
				must.Equal(t, "the location with the token", get.StatusCode, 200)
			}
		})
	}
}
