// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// TestGive: a name in every source; each next one supplies the value.
func TestGive(t *testing.T) {
	value := func(text string) []Variable { return []Variable{{Key: "a", Category: Terraform, Value: text}} }
	set := func(name string, scope Scope, priority bool) Applied {
		return Applied{Set{ID: name, Name: name, Priority: priority}, scope, value(name)}
	}
	sets := []Applied{
		set("p-all", OfAll, true), set("p-project", OfProject, true), set("p-workspace", OfWorkspace, true),
		set("b-workspace", OfWorkspace, false), set("a-workspace", OfWorkspace, false), set("project", OfProject, false), set("all", OfAll, false),
	}
	own, asked := value("own"), map[string]json.RawMessage{"a": json.RawMessage(`"asked"`)}
	for _, want := range []string{"p-all", "p-project", "p-workspace", "asked", "own", "a-workspace", "b-workspace", "project", "all", ""} {
		given, err := Give(own, sets, asked)
		got := string(given.Variables["a"])
		if err != nil || want != "" && got != `"`+want+`"` || want == "" && got != "" {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		switch want {
		case "asked":
			asked = nil
		case "own":
			own = nil
		default:
			sets = slices.DeleteFunc(sets, func(a Applied) bool { return a.Name == want })
		}
	}
}

// TestGiveKinds checks the handling of categories, expressions and sensitive values.
func TestGiveKinds(t *testing.T) {
	own := []Variable{
		{Key: "a", Category: Terraform, Value: "[1]"}, {Key: "b", Category: Terraform, Value: `{ x = ["secret-in-hcl"], pin = 1234567890 }`, HCL: true, Sensitive: true},
		{Key: "A", Category: Environment, Value: "secret-of-env", Sensitive: true}, {Key: "a", Category: Environment, Value: "1"},
	}
	given, err := Give(own, nil, map[string]json.RawMessage{"a": json.RawMessage("7")})
	if err != nil {
		t.Fatal(err)
	}
	if string(given.Variables["a"]) != "7" || string(given.Variables["b"]) != `{"pin":1234567890,"x":["secret-in-hcl"]}` || !maps.Equal(given.Environment, map[string]string{"A": "secret-of-env", "a": "1"}) {
		t.Errorf("got %s, %v", given.Variables, given.Environment)
	}
	for _, secret := range []string{"secret-in-hcl", "1234567890", "secret-of-env"} {
		if !slices.Contains(given.Masked, secret) {
			t.Errorf("%q is not masked: %q", secret, given.Masked)
		}
	}
	if given, err = Give(own[:1], nil, nil); err != nil || string(given.Variables["a"]) != `"[1]"` || len(given.Masked) > 0 {
		t.Errorf("text is %s, %v, masked %q", given.Variables["a"], err, given.Masked)
	}
}

// TestCheckHidden refuses as sensitive what a log cannot hide.
func TestCheckHidden(t *testing.T) {
	for _, tt := range []struct {
		value    string
		hcl, env bool
		ok       bool
	}{
		{value: "secret7", ok: false}, {value: "secret78", ok: true}, {value: "", ok: false},
		{value: "secret7", env: true, ok: false}, {value: "secret78", env: true, ok: true},
		{value: `{ pin = 1234567, b = true }`, hcl: true, ok: false}, {value: `{ pin = 12345678, b = true, n = null }`, hcl: true, ok: true},
		{value: `["long enough", ["short"]]`, hcl: true, ok: false}, {value: "true", hcl: true, ok: false},
	} {
		v := Variable{Key: "a", Category: Terraform, Value: tt.value, HCL: tt.hcl, Sensitive: true}
		if tt.env {
			v.Category = Environment
		}
		if err := v.Check(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", v, err)
		}
		v.Sensitive = false
		if err := v.Check(); err != nil {
			t.Errorf("readable %+v: %v", v, err)
		}
	}
}

// TestApplying uses sets by the closest use.
func TestApplying(t *testing.T) {
	sets := []Set{{ID: "g", Global: true}, {ID: "p"}, {ID: "w"}, {ID: "n"}, {ID: "gw", Global: true}}
	uses := []Use{{Set: "p", Project: "net"}, {Set: "w", Workspace: "prod"}, {Set: "w", Project: "net"}, {Set: "n", Workspace: "other"}, {Set: "gw", Workspace: "prod"}}
	got := map[string]Scope{}
	for _, a := range Applying(sets, uses, "prod", "net") {
		got[a.ID] = a.Scope
	}
	if want := (map[string]Scope{"g": OfAll, "p": OfProject, "w": OfWorkspace, "gw": OfWorkspace}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTag(t *testing.T) {
	tag := tag{kindVariable, parentHash("workspace", "prod"), "0123456789ABCDEF", 7, "0123abcd"}
	if got, ok := parseTag(tag.String()); !ok || got != tag {
		t.Errorf("%s is %+v, %t", tag, got, ok)
	}
	for _, s := range []string{"", "variable-", "workspace-prod-000001-01234567", tag.String() + "0", "variable-var-01234567-0123456789ABCDEF-000000-0123abcd", "variable-x-01234567-0123456789ABCDEF-000001-0123abcd"} {
		if got, ok := parseTag(s); ok {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

// FuzzTag accepts only the exact spelling of a tag.
func FuzzTag(f *testing.F) {
	f.Add("variable-var-01234567-0123456789ABCDEF-000001-0123abcd")
	f.Add("variable-set-01234567-0123456789ABCDEF-999999-0123abcd\n")
	f.Fuzz(func(t *testing.T, s string) {
		if got, ok := parseTag(s); ok && got.String() != s {
			t.Errorf("%q is %s", s, got)
		}
	})
}
