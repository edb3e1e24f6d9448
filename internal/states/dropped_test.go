// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
)

// TestDropped: states as OpenTofu 1.12.6, then Terraform 1.11.4, wrote them.
func TestDropped(t *testing.T) {
	state := func(tool, resources string) string {
		return fmt.Sprintf(`{"version":4,"terraform_version":%q,"serial":1,"lineage":"l","outputs":{},"resources":[%s],"check_results":null}`, tool, resources)
	}
	instance := func(key, provider string) string {
		return fmt.Sprintf(`{"index_key":%q,%s"schema_version":0,"attributes":{"id":"1"}}`, key, provider)
	}
	resource := func(name, provider string, instances ...string) string {
		return fmt.Sprintf(`{"mode":"managed","type":"time_static","name":%q,%s"instances":[%s]}`, name, provider, strings.Join(instances, ","))
	}
	const of = `"provider":"provider[\"registry.opentofu.org/hashicorp/time\"].by[\"a\"]",`
	const plain = `"provider":"provider[\"registry.opentofu.org/hashicorp/time\"]",`
	own := resource("x", "", instance("a", of), instance("b", of))
	other := resource("y", plain, instance("a", ""))
	for name, tt := range map[string]struct {
		before, after string
		want          string
	}{
		"dropped":               {state("1.12.6", own+","+other), state("1.11.4", other), "restore them with `RESTORE`: time_static.x[\"a\"], time_static.x[\"b\"]"},
		"destroyed by OpenTofu": {state("1.12.6", own+","+other), state("1.12.6", other), ""},
		"some are left":         {state("1.12.6", own), state("1.13.0", resource("x", "", instance("a", of))), ""},
		"others are gone":       {state("1.12.6", other), state("1.11.4", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := must.Get(states.Parse([]byte(tt.before)))(t), must.Get(states.Parse([]byte(tt.after)))(t)
			if got := states.ExplainDropped(before, after, "RESTORE"); (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		agent, state string
		warns        bool
	}{
		{"APN/1.0 HashiCorp/1.0 Terraform/1.11.4 (+https://www.terraform.io)", state("1.12.6", own), true},
		{"APN/1.0 HashiCorp/1.0 Terraform/1.11.4 (+https://www.terraform.io)", state("1.12.6", other), false},
		{"APN/1.0 OpenTofu-S3-Backend/1.0 OpenTofu/1.12.6", state("1.12.6", own), false},
		{"Terraform/1.11.4", "no state", false},
	} {
		if got := states.WarnOther(tt.agent, []byte(tt.state)); (got != "") != tt.warns {
			t.Errorf("%s reads %s: %q", tt.agent, tt.state, got)
		}
	}
	left := states.LeftBehind([]byte(state("1.12.6", resource("x", plain, instance("a", `"skip_destroy":true,`), instance("b", "")))))
	must.Match(t, "left behind", left, []string{`time_static.x["a"]`})
	must.Equal(t, "Terraform after OpenTofu", states.OtherTool("OpenTofu/1.12.6", "Terraform/1.11.4"), true)
	must.Equal(t, "OpenTofu after Terraform", states.OtherTool("Terraform/1.11.4", "OpenTofu/1.12.6"), false)
}
