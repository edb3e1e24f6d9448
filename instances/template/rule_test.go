// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/template"
)

// TestRules checks values against the validation blocks of a module, as tofu 1.12 does; what
// only the tool can compute is left to it, and no message says a secret.
func TestRules(t *testing.T) {
	const generic = "does not meet a validation rule of the module"
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for _, tt := range []struct{ kind, value, condition, message, want string }{
		{"number", `3`, `var.x > 1 && var.x <= var.other`, `"no"`, ""},
		{"number", `30`, `var.x > 1 && var.x <= var.other`, `"x is at most ${var.other}."`, "is refused by the module: x is at most 9"},
		{"string", `"ab"`, `can(regex("^[a-z]{3,}$", var.x))`, `"three letters"`, "is refused by the module: three letters"},
		{"string", `"abc"`, `can(regex("^[a-z]{3,}$", var.x))`, `"no"`, ""},
		{"string", `null`, `var.x == null || length(var.x) > 3`, `"no"`, ""},
		{"list(string)", `["a","eu-1"]`, `alltrue([for z in var.x : startswith(z, "eu-")])`, `"only in ${join(", ", ["eu"])}"`, generic},
		{"list(string)", `["eu-1"]`, `alltrue([for z in var.x : startswith(z, "eu-")])`, `"no"`, ""},
		{"object({ size = optional(number, 5) })", `{}`, `var.x.size == 5`, `"no"`, ""},
		{"set(string)", `["a","b"]`, `contains(var.x, "c")`, "<<EOT\nc is\nmissing.\nEOT", "is refused by the module: c is\nmissing"},
		{"string", `"a"`, `can(cidrhost(var.x, 0))`, `"no"`, ""},
		{"string", `"a"`, `var.x == local.y`, `"no"`, ""},
		{"string", `"a"`, `var.x == var.set`, `"no"`, ""},
		{"string", `"a"`, `var.x ==`, `"no"`, ""},
		{"string", `"a"`, `var.x != var.secret`, `"no"`, ""},
		{"string", `"hunter2"`, `var.x != var.secret`, `"it is ${var.secret}"`, generic},
		{"list(number)", list(2000), `length([for a in var.x : [for b in var.x : [for c in var.x : c]]]) == 0`, `"no"`, ""},
	} {
		rule, err := json.Marshal([]any{map[string]string{"condition": tt.condition, "error_message": tt.message}})
		if err != nil {
			t.Fatal(err)
		}
		inputs := fmt.Sprintf(`{"type":"object","properties":{
			"x":{"x-okara-type":%q,"default":null,"x-okara-validation":%s},"other":{"type":"number","x-okara-type":"number","default":9},"set":{"default":"a"},
			"secret":{"type":"string","x-okara-type":"string","default":"hunter2","writeOnly":true}}}`, tt.kind, rule)
		s, err := template.NewSchema(open(t, "parameter \"x\" {}\nparameter \"secret\" {}\ninputs = { set = \"${owner.id}\" }\n"), template.Module{Inputs: json.RawMessage(inputs)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(s.JSON()), "validation") {
			t.Errorf("the form gets the rules: %s", s.JSON())
		}
		_, err = s.CheckParameters(values("x", tt.value))
		if got := strings.TrimPrefix(fmt.Sprint(err), "/x: "); got != tt.want && (tt.want != "" || err != nil) {
			t.Errorf("%s of %.50s: %q, want %q", tt.condition, tt.value, got, tt.want)
		}
	}
}
