// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
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
		{"marked below an index", resource(`{"a":[{"b":"s0"},{"b":"s1"}]}`, marked), resource(`{"a":[{"b":"t0"},{"b":"t1"}]}`, `[]`), []string{"~ t.n", `    (sensitive_attributes): ["a[1].b"] -> (none)`, `    a[0].b: "s0" -> "t0"`, "    a[1].b: (sensitive) -> (sensitive)"}},
		{"marked later", resource(`{"a":{"k":"s"}}`, `[]`), resource(`{"a":{"k":"t"}}`, byKey), []string{"~ t.n", `    (sensitive_attributes): (none) -> ["a.k"]`, "    a.k: (sensitive) -> (sensitive)"}},
		{"marked as a whole", resource(`{"a":{"k":{"deep":"s"}}}`, byKey), resource(`{"a":{"k":{"deep":"t"}}}`, byKey), []string{"~ t.n", "    a.k.deep: (sensitive) -> (sensitive)"}},
		{"an unknown kind of mark", resource(`{"a":"s"}`, `[[{"type":"splat"}]]`), resource(`{"a":"t"}`, `[]`), []string{"~ t.n", `    (sensitive_attributes): [""] -> (none)`, "    a: (sensitive) -> (sensitive)"}},
		{"named like a secret", resource(`{"db":{"Master-Password":"s"},"secrets":{"x":"s"},"apiKey":"s"}`, `[]`), resource(`{"db":{"Master-Password":"t"},"secrets":{"x":"t"},"apiKey":"t"}`, `[]`),
			[]string{"~ t.n", "    apiKey: (sensitive) -> (sensitive)", "    db.Master-Password: (sensitive) -> (sensitive)", "    secrets.x: (sensitive) -> (sensitive)"}},
		{"escapes of one string", resource(`{"a":"\u0026\u00fc\n"}`, `[]`), resource(`{"a":"&ü\n"}`, `[]`), nil},
		{"a long value", resource(`{"a":"x"}`, `[]`), resource(`{"a":"`+strings.Repeat("ü", 200)+`"}`, `[]`), []string{"~ t.n", `    a: "x" -> "` + strings.Repeat("ü", 119) + "…"}},
	}
	// facts is a state with one instance that has these members, one output and one check.
	facts := func(resource, instance, output, check string) string {
		return fmt.Sprintf(`{"version":4,"resources":[{"mode":"managed","type":"t","name":"n",%s"instances":[{%s"attributes":{"a":1}}]}],"outputs":{"o":{%s"value":"v"}},"check_results":[{"config_addr":"check.c",%s"objects":null}]}`, resource, instance, output, check)
	}
	for name, at := range map[string]struct{ before, after, want string }{
		"tainted":            {facts("", "", "", ""), facts("", `"status":"tainted",`, "", ""), `~ t.n|    (status): (none) -> "tainted"`},
		"a provider":         {facts(`"provider":"p",`, "", "", ""), facts(`"provider":"q",`, "", "", ""), `~ t.n|    (provider): "p" -> "q"`},
		"its own provider":   {facts("", `"provider":"p[1]",`, "", ""), facts("", `"provider":"p[2]",`, "", ""), `~ t.n|    (provider): "p[1]" -> "p[2]"`},
		"an identity":        {facts("", `"identity":{"arn":"x"},`, "", ""), facts("", `"identity":{"arn":"y"},`, "", ""), `~ t.n|    (identity).arn: "x" -> "y"`},
		"skip_destroy":       {facts("", "", "", ""), facts("", `"skip_destroy":true,`, "", ""), `~ t.n|    (skip_destroy): (none) -> true`},
		"dependencies":       {facts("", `"dependencies":["a","b"],`, "", ""), facts("", `"dependencies":["b","c"],`, "", ""), `~ t.n|    (dependencies): ["a","b"] -> ["b","c"]`},
		"their order":        {facts("", `"dependencies":["a","b"],`, "", ""), facts("", `"dependencies":[ "b","a"],`, "", ""), ""},
		"what is not set":    {facts("", `"dependencies":[ ],"status":"","create_before_destroy":false,`, "", ""), facts("", "", "", ""), ""},
		"a sensitive output": {facts("", "", "", ""), facts("", "", `"sensitive":true,`, ""), `~ output.o|    (sensitive): (none) -> true`},
		"a check":            {facts("", "", "", `"status":"pass",`), facts("", "", "", `"status":"fail",`), `~ check_results check.c|    (status): "pass" -> "fail"`},
		"escapes of one key": {facts("", `"index_key":"a\u0026",`, "", ""), facts("", `"index_key":"a&","status":"x",`, "", ""), `~ t.n["a&"]|    (status): (none) -> "x"`},
		"what is left out":   {facts("", `"private":"x","schema_version":1,`, "", ""), facts("", `"private":"y","schema_version":2,`, "", ""), "not compared: private, schema_version"},
	} {
		want := strings.Split(at.want, "|")
		if at.want == "" {
			want = nil
		}
		tests = append(tests, struct {
			name, before, after string
			want                []string
		}{name, at.before, at.after, want})
	}
	// old is a state of Terraform 0.11, as both tools list it: aws_instance.web[0] and so on.
	old := func(url, web, tainted, vpc string) string {
		return fmt.Sprintf(`{"version":3,"terraform_version":"0.11.15","serial":4,"lineage":"f","modules":[{"path":["root"],"outputs":{"url":{"sensitive":false,"type":"string","value":%q}},"resources":{
"aws_instance.web.0":{"type":"aws_instance","depends_on":[],"primary":{"id":%[2]q,"attributes":{"id":%[2]q,"tags.%%":"1","tags.Name":"web"},"meta":{"schema_version":"1"},"tainted":%s},"deposed":[{"id":"i-9","attributes":{"id":"i-9"}}],"provider":"provider.aws"},
"data.aws_ami.x":{"type":"aws_ami","primary":{"id":"ami-1","attributes":{"id":"ami-1"}},"provider":"provider.aws"}}},
{"path":["root","net","sub"],"outputs":{"id":{"value":"x"}},"resources":{"aws_vpc.main":{"primary":{"id":%q},"provider":"provider.aws"}}}]}`, url, web, tainted, vpc)
	}
	oldWant := []string{"~ aws_instance.web[0]", "    (tainted): (none) -> true", `    id: "i-1" -> "i-2"`, "~ module.net.module.sub.aws_vpc.main", `    id: "v-1" -> "v-2"`, "~ output.url", `    value: "a" -> "b"`}
	tests = append(tests, struct {
		name, before, after string
		want                []string
	}{"version 3", old("a", "i-1", "false", "v-1"), old("b", "i-2", "true", "v-2"), oldWant})
	if has, err := states.HasResources([]byte(old("a", "i-1", "false", "v-1"))); err != nil || !has {
		t.Errorf("a state of version 3 has resources: %t, %v", has, err)
	}
	if all, err := states.Outputs([]byte(old("a", "i-1", "false", "v-1"))); err != nil || len(all) != 1 || string(all["url"].Value) != `"a"` || all["url"].Type != nil {
		t.Errorf("outputs of version 3: %v, %v", all, err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := must.Get(states.Parse([]byte(tt.before)))(t)
			after := must.Get(states.Parse([]byte(tt.after)))(t)
			changes, leftOut := states.Diff(before, after)
			var lines []string
			if len(leftOut) > 0 {
				lines = append(lines, "not compared: "+strings.Join(leftOut, ", "))
			}
			for _, c := range changes {
				lines = append(lines, c.String())
			}
			must.Match(t, "value", strings.Join(lines, "\n"), strings.Join(tt.want, "\n"))
			b := must.Get(json.Marshal(changes))(t)
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
	if _, err := states.Parse([]byte(`{"version":5}`)); err == nil || !strings.Contains(err.Error(), "format version 5") {
		t.Errorf("an unknown version: %v", err)
	}
}
