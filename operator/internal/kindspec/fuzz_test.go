// SPDX-License-Identifier: Apache-2.0

package kindspec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
)

// choices are decisions that come from bytes; once those run out, each is 0.
type choices struct{ left []byte }

func (c *choices) next(n int) int {
	if len(c.left) == 0 {
		return 0
	}
	b := int(c.left[0])
	c.left = c.left[1:]
	return b % n
}

// typed returns a schema as in the description of a module. exact: a CRD says the same.
func (c *choices) typed(depth int, exact *bool) map[string]any {
	kind := c.next(9)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return map[string]any{"type": "string"}
	case 1:
		return map[string]any{"type": "number"}
	case 2:
		return map[string]any{"type": "boolean"}
	case 3:
		return map[string]any{}
	case 4:
		return map[string]any{"type": "array", "items": c.typed(depth-1, exact)}
	case 5:
		items := c.typed(depth-1, exact)
		if name, _ := items["type"].(string); name == "" || name == "array" || name == "object" {
			*exact = false // only the module compares such elements
		}
		return map[string]any{"type": "array", "uniqueItems": true, "items": items}
	case 6:
		return map[string]any{"type": "object", "additionalProperties": c.typed(depth-1, exact)}
	case 7:
		*exact = false // nor can a CRD say which element has which type
		n := 1 + c.next(2)
		items := []any{}
		for range n {
			items = append(items, c.typed(depth-1, exact))
		}
		return map[string]any{"type": "array", "prefixItems": items, "minItems": n, "maxItems": n}
	}
	properties, required := map[string]any{}, []string{}
	for i := range c.next(3) {
		name := fmt.Sprint("p", i)
		s := c.typed(depth-1, exact)
		if c.next(2) == 0 {
			required = append(required, name)
		} else {
			orNull(s)
		}
		properties[name] = s
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func orNull(s map[string]any) {
	if name, ok := s["type"].(string); ok {
		s["type"] = []any{name, "null"}
	}
}

// value returns a value that a schema may accept.
func (c *choices) value(s map[string]any, depth int) any {
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		kind = list[0].(string)
		if c.next(4) == 0 {
			return nil
		}
	}
	if c.next(8) == 1 || kind == "" {
		kind = []string{"string", "number", "boolean", "array", "object", ""}[c.next(6)]
	}
	switch kind {
	case "string":
		return strings.Repeat("é", c.next(4))
	case "number":
		return []any{0, 1, -7, 2.5, 1 << 40}[c.next(5)]
	case "boolean":
		return c.next(2) == 0
	case "array":
		list := []any{}
		items, _ := s["items"].(map[string]any)
		prefix, _ := s["prefixItems"].([]any)
		for i := range c.next(4) {
			of := items
			if i < len(prefix) {
				of = prefix[i].(map[string]any)
			}
			if depth > 0 {
				list = append(list, c.value(of, depth-1))
			}
		}
		return list
	case "object":
		o := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		of, _ := s["additionalProperties"].(map[string]any)
		for i := range 2 {
			name := fmt.Sprint("p", i)
			if p, ok := properties[name].(map[string]any); ok {
				of = p
			}
			if depth > 0 && c.next(4) > 0 {
				o[name] = c.value(of, depth-1)
			}
		}
		return o
	}
	return nil
}

// FuzzSchema checks that a kind accepts what the schema of its module accepts, and refuses
// what that refuses.
//
// Shows: operator 25
func FuzzSchema(f *testing.F) {
	f.Add([]byte{8, 2, 4, 0, 1, 1, 7, 1, 1, 2, 3, 0})
	f.Add([]byte{5, 1, 0, 3, 1, 1})
	f.Add([]byte("0010A")) // null for a field that accepts anything
	f.Add([]byte{6, 4, 0, 1, 1, 3, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		c, exact := &choices{src}, true
		x := c.typed(3, &exact)
		if c.next(2) == 0 {
			orNull(x)
		}
		if c.next(3) == 0 {
			x["default"] = c.value(x, 3)
		}
		inputs := mustJSON(t, map[string]any{"type": "object", "properties": map[string]any{"x": x}, "required": []string{"x"}, "additionalProperties": false})
		value := mustJSON(t, c.value(x, 4))

		def := &v1alpha1.ModuleKind{Spec: v1alpha1.ModuleKindSpec{Names: v1alpha1.KindNames{Kind: "Thing", Plural: "things"}}}
		def.Name = "things"
		k, err := kindspec.New(def, kindspec.Module{Inputs: inputs})
		if err != nil {
			t.Fatalf("%s: %v", inputs, err)
		}
		o := &unstructured.Unstructured{}
		must.Succeed(t, o.UnmarshalJSON([]byte(`{"apiVersion":"apps.okara.dev/v1alpha1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":`+string(value)+`}}`)))
		errs := k.Invalid(o)
		want := accepts(t, inputs, []byte(`{"x":`+string(value)+`}`))
		if (len(errs) == 0) != want && (want || exact) {
			t.Errorf("%s\n%s\nthe module accepts it: %t; the kind: %v", inputs, value, want, errs)
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	return must.Get(json.Marshal(v))(t)
}

func accepts(t *testing.T, schema, value []byte) bool {
	t.Helper()
	s := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(schema)))(t)
	v := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(value)))(t)
	compiler := jsonschema.NewCompiler()
	must.Succeed(t, compiler.AddResource("okara:inputs", s))
	compiled := must.Get(compiler.Compile("okara:inputs"))(t)
	return compiled.Validate(v) == nil
}
