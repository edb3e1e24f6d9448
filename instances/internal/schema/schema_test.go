// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-141914ff/okara/instances/internal/schema"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/syntax"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func messageOf(p schema.Problem) string {
	return strings.Join(append([]string{""}, p.Path...), "/") + ": " + p.Text
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"type":"integer"}`, `1.0`, ""},
		{`{"type":"integer"}`, `1.5`, ": is number, not integer"},
		{`{"type":["string","null"]}`, `{"p":"hunter2"}`, ": is object, not null or string"},
		{`{"enum":[1,"a"]}`, `1.0`, ""},
		{`{"enum":[1,"a"]}`, `"hunter2"`, `: is not one of 1, "a"`},
		{`{"const":{"b":1,"a":2}}`, `{"a":2.0,"b":1}`, ""},
		{`{"minLength":2,"maxLength":3}`, `"ä"`, ": has 1 character, at least 2 required"},
		{`{"exclusiveMinimum":1,"multipleOf":0.1}`, `1`, ": is not greater than 1"},
		{`{"multipleOf":0.1}`, `0.3`, ""},
		{`{"maximum":25000000}`, `25000001`, ": is greater than 25000000"},
		{`{"uniqueItems":true}`, `[{"a":1},{"a":1.0}]`, ": has an element twice"},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}`, `["a",1,"b"]`, "/2: is string, not number"},
		{`{"prefixItems":[{}],"items":false}`, `[1,2]`, "/1: is not allowed"},
		{`{"required":["a"],"properties":{"b":{"type":"null"}},"additionalProperties":false}`, `{"b":1,"c":2}`, "/a: is missing; /b: is number, not null; /c: unknown field"},
		{`{"additionalProperties":{"properties":{"x":false}}}`, `{"k":{"x":1}}`, "/k/x: is not allowed"},
		{`{"propertyNames":{"pattern":"^a"}}`, `{"b":1}`, "/b: field name is not allowed"},
		{`{"patternProperties":{"^a":{"type":"null"}},"additionalProperties":false}`, `{"a":1}`, "/a: is number, not null"},
		{`{"oneOf":[{"type":"number"},{"minimum":2}]}`, `3`, ": is not allowed: oneOf"},
		{`{"if":{"type":"string"},"then":{"pattern":"^a"},"else":{"type":"null"}}`, `"b"`, ": does not match ^a"},
		{`{"not":{"type":"string"}}`, `"b"`, ": is not allowed: not"},
	} {
		s, err := schema.Compile(decode(t, tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.schema, err)
			continue
		}
		var got []string
		for _, p := range s.Validate(decode(t, tt.value)) {
			got = append(got, messageOf(p))
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.schema, tt.value, text, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		`{"$ref":"#"}`, `{"items":{"$dynamicRef":"#x"}}`, `{"$id":"x"}`, `{"contains":{}}`, `{"unevaluatedProperties":false}`,
		`[]`, `1`, `{"type":"colour"}`, `{"type":[]}`, `{"type":["string","string"]}`, `{"pattern":"("}`, `{"minimum":"1"}`, `{"multipleOf":0}`,
		`{"minItems":-1}`, `{"minItems":1.5}`, `{"required":[1]}`, `{"properties":[]}`, `{"allOf":[]}`, `{"anyOf":{}}`, `{"enum":1}`, `{"uniqueItems":1}`,
		`{"patternProperties":{"(":{}}}`, `{"not":1}`,
	} {
		if _, err := schema.Compile(decode(t, text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// TestBounds refuses what would take too much time or memory.
func TestBounds(t *testing.T) {
	many := func(what string, n int) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	for _, tt := range []struct{ name, schema, value, want string }{
		{"schemas of elements", `{"items":{"allOf":[` + many(`{"type":"null"}`, 1000) + `]}}`, "[" + many("1", 4000) + "]", "too large to check"},
		{"schemas that nothing may fit", `{"items":{"not":{"anyOf":[` + many(`{"type":"null"}`, 1000) + `]}}}`, "[" + many("1", 4000) + "]", "too large to check"},
		{"required names", `{"items":{"required":[` + many(`"a"`, 1000) + `]}}`, "[" + many("{}", 4000) + "]", "too large to check"},
		{"long text", `{"allOf":[` + many(`{"minLength":1}`, 5000) + `]}`, `"` + strings.Repeat("x", 8000) + `"`, "too large to check"},
		{"values", `{"items":{"enum":[` + many("1", 100_000) + `]}}`, "[" + many("1", 4000) + "]", "too large to check"},
		{"compared elements", `{"allOf":[` + many(`{"uniqueItems":true}`, 5000) + `]}`, "[" + many("1", 4000) + "]", "too large to check"},
		{"names", `{"patternProperties":{"` + strings.Repeat("a?", 400) + `":{}}}`, `{"` + strings.Repeat("a", 100_000) + `":1}`, "too large to check"},
		{"problems", `{"items":{"type":"null"}}`, "[" + many("1", 4000) + "]", "/19: is number, not null"},
		{"number", `{"type":"number","maximum":10}`, "1e1000001", ": is too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := must.Get(schema.Compile(decode(t, tt.schema)))(t)
			problems := s.Validate(decode(t, tt.value))
			if len(problems) == 0 || len(problems) > 20 {
				t.Fatalf("%d problems", len(problems))
			}
			if got := messageOf(problems[len(problems)-1]); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for name, document := range map[string]string{
		"pattern": `{"pattern":"` + strings.Repeat("a", 1001) + `"}`, "patterns": `{"allOf":[` + many(`{"pattern":"(abc){1000}"}`, 50) + `]}`,
	} {
		if _, err := schema.Compile(decode(t, document)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestAgree compares random schemas with a complete library.
func TestAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fit := 0
	const rounds = 5_000
	for range rounds {
		document, value := randomSchema(r, 3), randomValue(r, 3)
		got, err := schema.Compile(decode(t, document))
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		want, err := library(decode(t, document))
		if err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if agree(t, got, want, decode(t, value)) {
			fit++
		}
	}
	if fit < rounds/10 || fit > rounds*9/10 {
		t.Errorf("%d of %d fit: too much of one kind to mean anything", fit, rounds)
	}
}

func library(document any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("okara:x", document); err != nil {
		return nil, err
	}
	return c.Compile("okara:x")
}

func agree(t *testing.T, got *schema.Schema, want *jsonschema.Schema, v any) bool {
	t.Helper()
	problems, err := got.Validate(v), want.Validate(v)
	if (len(problems) == 0) != (err == nil) {
		t.Fatalf("%v: %v, the library says %v", v, problems, err)
	}
	return err == nil
}

// FuzzAgree compiles arbitrary schemas. Some that the library refuses may be accepted.
func FuzzAgree(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(randomSchema(r, 2), randomValue(r, 2))
	}
	f.Fuzz(func(t *testing.T, document, value string) {
		if cmp.Or(syntax.CheckData([]byte(document), 16), syntax.CheckData([]byte(value), 16)) != nil {
			return
		}
		got, err := schema.Compile(decode(t, document))
		if err != nil {
			return
		}
		if want, err := library(decode(t, document)); err == nil {
			agree(t, got, want, decode(t, value))
		}
	})
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

func randomValue(r *rand.Rand, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch r.IntN(kinds) {
	case 0:
		return pick(r, "null", "true", "false")
	case 1:
		return pick(r, "0", "1", "1.0", "2", "2.5", "-1", "1e2", "100")
	case 2, 3:
		return pick(r, `""`, `"a"`, `"ab"`, `"b"`, `"äb"`)
	case 4:
		var list []string
		for range r.IntN(4) {
			list = append(list, randomValue(r, depth-1))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	var list []string
	for _, name := range []string{"a", "ab", "b"} {
		if r.IntN(2) == 0 {
			list = append(list, fmt.Sprintf("%q:%s", name, randomValue(r, depth-1)))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func randomSchema(r *rand.Rand, depth int) string {
	if r.IntN(20) == 0 {
		return pick(r, "true", "false", "{}")
	}
	var list []string
	for range 1 + r.IntN(3) {
		list = append(list, randomKeyword(r, depth))
	}
	slices.Sort(list)
	list = slices.CompactFunc(list, func(a, b string) bool {
		x, _, _ := strings.Cut(a, ":")
		y, _, _ := strings.Cut(b, ":")
		return x == y
	})
	return "{" + strings.Join(list, ",") + "}"
}

func randomKeyword(r *rand.Rand, depth int) string {
	simple := []func() string{
		func() string {
			return `"type":` + pick(r, `"string"`, `"integer"`, `["number","null"]`, `["array","object"]`, `"boolean"`)
		},
		func() string { return `"enum":[` + randomValue(r, 1) + "," + randomValue(r, 1) + "]" },
		func() string { return `"const":` + randomValue(r, 1) },
		func() string {
			return pick(r, `"minimum":1`, `"maximum":2`, `"exclusiveMinimum":1`, `"exclusiveMaximum":1.5`, `"multipleOf":0.5`)
		},
		func() string {
			return pick(r, `"minLength":1`, `"maxLength":1`, `"pattern":"^a"`, `"format":"uuid"`, `"x-okara":1`)
		},
		func() string {
			return pick(r, `"minItems":1`, `"maxItems":2`, `"uniqueItems":true`, `"minProperties":1`, `"maxProperties":1`)
		},
		func() string { return `"required":["a"]` },
	}
	if depth == 0 {
		return simple[r.IntN(len(simple))]()
	}
	inner := func() string { return randomSchema(r, depth-1) }
	nested := []func() string{
		func() string { return `"properties":{"a":` + inner() + `,"b":` + inner() + "}" },
		func() string { return `"patternProperties":{"^a":` + inner() + "}" },
		func() string { return `"additionalProperties":` + inner() },
		func() string { return `"propertyNames":` + inner() },
		func() string { return `"items":` + inner() },
		func() string { return `"prefixItems":[` + inner() + "," + inner() + "]" },
		func() string { return `"` + pick(r, "allOf", "anyOf", "oneOf") + `":[` + inner() + "," + inner() + "]" },
		func() string { return `"not":` + inner() },
		func() string { return `"if":` + inner() + `,"then":` + inner() + `,"else":` + inner() },
	}
	all := append(simple, nested...)
	return all[r.IntN(len(all))]()
}
