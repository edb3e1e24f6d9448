// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/states"
)

func TestDiff(t *testing.T) {
	// resource is a state with one resource with these attributes and sensitive paths.
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
			before, err := states.Parse([]byte(tt.before))
			if err != nil {
				t.Fatal(err)
			}
			after, err := states.Parse([]byte(tt.after))
			if err != nil {
				t.Fatal(err)
			}
			changes := states.Diff(before, after)
			var lines []string
			for _, c := range changes {
				lines = append(lines, c.String())
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), strings.Join(lines, "\n")); diff != "" {
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

func TestParseEncrypted(t *testing.T) {
	_, err := states.Parse([]byte(`{"serial":3,"lineage":"a","encrypted_data":"AAAA","encryption_version":"v0"}`))
	if !errors.Is(err, states.ErrEncrypted) {
		t.Errorf("error %v, want ErrEncrypted", err)
	}
}
