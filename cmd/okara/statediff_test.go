// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/statebackend"
)

func TestDiffStates(t *testing.T) {
	// resource is one resource with these attributes and sensitive paths.
	resource := func(attributes, sensitive string) string {
		return fmt.Sprintf(`{"version":4,"serial":1,"lineage":"a","outputs":{},"resources":[{"mode":"managed","type":"t","name":"n","instances":[{"attributes":%s,"sensitive_attributes":%s}]}]}`, attributes, sensitive)
	}
	const (
		marked = `[[{"type":"get_attr","value":"a"},{"type":"index","value":{"value":1,"type":"number"}},{"type":"get_attr","value":"b"}]]`
		byKey  = `[[{"type":"get_attr","value":"a"},{"type":"index","value":{"value":"k","type":"string"}}]]`
	)
	tests := []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", resource(`{"a":1}`, `[]`), resource(`{ "a" : 1 }`, `[]`), nil},
		{"a number", resource(`{"a":1}`, `[]`), resource(`{"a":2}`, `[]`), []string{"~ t.n", "    a: 1 -> 2"}},
		{"a type", resource(`{"a":"1"}`, `[]`), resource(`{"a":1}`, `[]`), []string{"~ t.n", `    a: "1" -> 1`}},
		{"an element", resource(`{"a":["x"]}`, `[]`), resource(`{"a":["x",{"b":null}]}`, `[]`), []string{"~ t.n", "    a[1].b: (none) -> null"}},
		{"an emptied list", resource(`{"a":["x"]}`, `[]`), resource(`{"a":[]}`, `[]`), []string{"~ t.n", "    a: (none) -> []", `    a[0]: "x" -> (none)`}},
		{"marked below an index", resource(`{"a":[{"b":"s0"},{"b":"s1"}]}`, marked), resource(`{"a":[{"b":"t0"},{"b":"t1"}]}`, `[]`), []string{"~ t.n", `    a[0].b: "s0" -> "t0"`, "    a[1].b: (sensitive) -> (sensitive)"}},
		{"marked later", resource(`{"a":{"k":"s"}}`, `[]`), resource(`{"a":{"k":"t"}}`, byKey), []string{"~ t.n", "    a.k: (sensitive) -> (sensitive)"}},
		{"marked as a whole", resource(`{"a":{"k":{"deep":"s"}}}`, byKey), resource(`{"a":{"k":{"deep":"t"}}}`, byKey), []string{"~ t.n", "    a.k.deep: (sensitive) -> (sensitive)"}},
		{"an unknown kind of mark", resource(`{"a":"s"}`, `[[{"type":"splat"}]]`), resource(`{"a":"t"}`, `[]`), []string{"~ t.n", "    a: (sensitive) -> (sensitive)"}},
		{"named like a secret", resource(`{"db":{"Master-Password":"s"},"secrets":{"x":"s"},"apiKey":"s"}`, `[]`), resource(`{"db":{"Master-Password":"t"},"secrets":{"x":"t"},"apiKey":"t"}`, `[]`),
			[]string{"~ t.n", "    apiKey: (sensitive) -> (sensitive)", "    db.Master-Password: (sensitive) -> (sensitive)", "    secrets.x: (sensitive) -> (sensitive)"}},
		{"a long value", resource(`{"a":"x"}`, `[]`), resource(`{"a":"`+strings.Repeat("ü", 200)+`"}`, `[]`), []string{"~ t.n", `    a: "x" -> "` + strings.Repeat("ü", 119) + "…"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, err := parseStateDocument([]byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			after, err := parseStateDocument([]byte(tt.after))
			if err != nil {
				t.Fatal(err)
			}
			changes := diffStates(before, after)
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), changesText(changes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			b, err := json.Marshal(changes)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.Join(tt.want, ""), "(sensitive)") && strings.Contains(string(b), `"s"`) {
				t.Errorf("the JSON shows a sensitive value: %s", b)
			}
		})
	}
}

func TestWithSerial(t *testing.T) {
	const encrypted = `{"serial":3,"lineage":"a","encrypted_data":"AAAA","encryption_version":"v0"}`
	tests := []struct {
		name, state, want string
		err               error
	}{
		{"in the middle", `{"version":4, "serial" : 3 ,"x":{"serial":1}}`, `{"version":4, "serial" : 12 ,"x":{"serial":1}}`, nil},
		{"after others of the same name", `{"x":{"serial":1},"y":[{"serial":2}],"serial":3}`, `{"x":{"serial":1},"y":[{"serial":2}],"serial":12}`, nil},
		{"encrypted by OpenTofu", encrypted, encrypted, nil},
		{"none", `{"version":4}`, "", statebackend.ErrNotState},
		{"cut", `{"version":4,"x":`, "", statebackend.ErrNotState},
		{"no object", `[]`, "", statebackend.ErrNotState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withSerial([]byte(tt.state), 12)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(got) != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func FuzzWithSerial(f *testing.F) {
	f.Add(`{"version":4,"serial":3,"lineage":"a"}`)
	f.Add(`{"a":[{"serial":1}],"serial":3e2}`)
	f.Add(`{"encrypted_data":1,"serial":1}`)
	f.Fuzz(func(t *testing.T, state string) {
		got, err := withSerial([]byte(state), 77)
		twice := strings.Count(state, "serial") > 1 // which one counts differs between readers of JSON; no tool writes it
		if err != nil || twice || statebackend.CheckState([]byte(state)) != nil || statebackend.EncryptedByTool([]byte(state)) {
			return
		}
		lineage, _, _ := statebackend.Meta([]byte(state))
		l, serial, ok := statebackend.Meta(got)
		if !ok || serial != 77 || l != lineage {
			t.Errorf("%q became %q: %q, %d, %v", state, got, l, serial, ok)
		}
	})
}
