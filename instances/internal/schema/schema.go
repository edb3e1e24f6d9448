// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// Schema is one that was read. It never changes.
type Schema struct {
	never      bool // the schema false
	types      []string
	enum       []any // nil: anything
	enumWord   string
	bounds     []bound
	pattern    *regexp.Regexp
	counts     []count
	unique     bool
	prefix     []*Schema
	items      *Schema // those after prefix
	required   []string
	properties map[string]*Schema
	patterns   []patterned
	names      *Schema
	additional *Schema
	groups     []group
	condition  *Schema
	then, not  *Schema
	otherwise  *Schema
}

// bound is one of the keywords for numbers.
type bound struct {
	ok   func(n *big.Rat) bool
	text string
}

// count is one of the keywords for how much there is.
type count struct {
	kind string // string, array or object
	ok   func(n int) bool
	text string // with the number that there is to be put in
}

type patterned struct {
	name *regexp.Regexp
	s    *Schema
}

// group is allOf, anyOf or oneOf.
type group struct {
	keyword string
	list    []*Schema
}

// refused are keywords that would have to be checked, and are not.
func refused(keyword string) bool {
	switch keyword {
	case "contains", "minContains", "maxContains", "dependentRequired", "dependentSchemas", "dependencies",
		"unevaluatedItems", "unevaluatedProperties", "additionalItems":
		return true
	}
	return strings.HasPrefix(keyword, "$") && keyword != "$schema" && keyword != "$comment"
}

// Compile reads a schema: what encoding/json makes of it, with numbers as
// [json.Number], float64 or int.
func Compile(document any) (*Schema, error) {
	s := &Schema{}
	switch d := document.(type) {
	case bool:
		s.never = !d
		return s, nil
	case map[string]any:
		for _, keyword := range slices.Sorted(maps.Keys(d)) {
			if refused(keyword) {
				return nil, fmt.Errorf("the keyword %q is not supported", keyword)
			}
			if err := s.read(keyword, d[keyword]); err != nil {
				return nil, fmt.Errorf("%s: %w", keyword, err)
			}
		}
		return s, nil
	}
	return nil, errors.New("a schema is an object, true or false")
}

// read takes one keyword.
func (s *Schema) read(keyword string, v any) (err error) {
	switch keyword {
	case "type":
		s.types, err = typeNames(v)
	case "enum", "const":
		err = s.readEnum(keyword, v)
	case "pattern":
		s.pattern, err = expression(v)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		err = s.readBound(keyword, v)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		err = s.readCount(keyword, v)
	case "uniqueItems":
		s.unique, err = flag(v)
	case "required":
		s.required, err = names(v)
	case "properties":
		s.properties, err = compileMap(v)
	case "patternProperties":
		err = s.readPatterns(v)
	case "prefixItems":
		s.prefix, err = compileList(v)
	case "allOf", "anyOf", "oneOf":
		err = s.readGroup(keyword, v)
	case "items", "propertyNames", "additionalProperties", "not", "if", "then", "else":
		err = s.readInner(keyword, v)
	}
	return err
}

func (s *Schema) readInner(keyword string, v any) error {
	inner, err := Compile(v)
	switch keyword {
	case "items":
		s.items = inner
	case "propertyNames":
		s.names = inner
	case "additionalProperties":
		s.additional = inner
	case "not":
		s.not = inner
	case "if":
		s.condition = inner
	case "then":
		s.then = inner
	case "else":
		s.otherwise = inner
	}
	return err
}

func (s *Schema) readEnum(keyword string, v any) error {
	list, ok := v.([]any)
	if keyword == "const" {
		list, ok = []any{v}, true
	}
	if !ok {
		return errors.New("must be an array")
	}
	word := "is none of " + written(list)
	if keyword == "const" {
		word = "is not " + written(list)
	}
	if s.enum == nil {
		s.enum, s.enumWord = list, word
		return nil
	}
	// A const beside an enum: both have to agree.
	s.enum = slices.DeleteFunc(slices.Clone(s.enum), func(have any) bool {
		return !slices.ContainsFunc(list, func(v any) bool { return equal(v, have) })
	})
	s.enumWord = word
	return nil
}

func (s *Schema) readBound(keyword string, v any) error {
	limit, ok := number(v)
	if !ok {
		return errors.New("must be a number")
	}
	b := bound{text: "is less than " + decimal(limit)}
	switch keyword {
	case "minimum":
		b.ok = func(n *big.Rat) bool { return n.Cmp(limit) >= 0 }
	case "exclusiveMinimum":
		b = bound{func(n *big.Rat) bool { return n.Cmp(limit) > 0 }, "is not more than " + decimal(limit)}
	case "maximum":
		b = bound{func(n *big.Rat) bool { return n.Cmp(limit) <= 0 }, "is more than " + decimal(limit)}
	case "exclusiveMaximum":
		b = bound{func(n *big.Rat) bool { return n.Cmp(limit) < 0 }, "is not less than " + decimal(limit)}
	case "multipleOf":
		if limit.Sign() <= 0 {
			return errors.New("must be more than 0")
		}
		b = bound{func(n *big.Rat) bool { return new(big.Rat).Quo(n, limit).IsInt() }, "is no multiple of " + decimal(limit)}
	}
	s.bounds = append(s.bounds, b)
	return nil
}

func (s *Schema) readCount(keyword string, v any) error {
	n, ok := number(v)
	if !ok || !n.IsInt() || n.Sign() < 0 || !n.Num().IsInt64() {
		return errors.New("must be a whole number of 0 or more")
	}
	limit := n.Num().Int64()
	least := strings.HasPrefix(keyword, "min")
	c := count{ok: func(n int) bool { return int64(n) <= limit }, kind: "string"}
	if least {
		c.ok = func(n int) bool { return int64(n) >= limit }
	}
	unit, word := "characters", "at most"
	switch keyword[3:] {
	case "Items":
		c.kind, unit = "array", "elements"
	case "Properties":
		c.kind, unit = "object", "fields"
	}
	if least {
		word = "at least"
	}
	c.text = fmt.Sprintf("has %%d %s, %s %d", unit, word, limit)
	s.counts = append(s.counts, c)
	return nil
}

func (s *Schema) readPatterns(v any) error {
	inner, err := compileMap(v)
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		re, errName := expression(name)
		err = cmp.Or(err, errName)
		s.patterns = append(s.patterns, patterned{re, inner[name]})
	}
	return err
}

func (s *Schema) readGroup(keyword string, v any) error {
	list, err := compileList(v)
	if err == nil && len(list) == 0 {
		err = errors.New("must not be empty")
	}
	s.groups = append(s.groups, group{keyword, list})
	return err
}

func typeNames(v any) ([]string, error) {
	list, err := names(v)
	if name, ok := v.(string); ok {
		list, err = []string{name}, nil
	}
	if err == nil && len(list) == 0 {
		err = errors.New("must not be empty")
	}
	var sorted []string
	for _, known := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		if slices.Contains(list, known) {
			sorted = append(sorted, known)
		}
	}
	if err == nil && len(sorted) != len(list) {
		err = errors.New("must be names of types, each once")
	}
	return sorted, err
}

func names(v any) ([]string, error) {
	list, ok := v.([]any)
	var out []string
	for _, element := range list {
		name, text := element.(string)
		ok = ok && text
		out = append(out, name)
	}
	if !ok {
		return nil, errors.New("must be an array of strings")
	}
	return out, nil
}

func expression(v any) (*regexp.Regexp, error) {
	source, ok := v.(string)
	if !ok {
		return nil, errors.New("must be a string")
	}
	return regexp.Compile(source)
}

func flag(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, errors.New("must be true or false")
	}
	return b, nil
}

func compileMap(v any) (map[string]*Schema, error) {
	all, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("must be an object")
	}
	out := map[string]*Schema{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		inner, err := Compile(all[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = inner
	}
	return out, nil
}

func compileList(v any) ([]*Schema, error) {
	all, ok := v.([]any)
	if !ok {
		return nil, errors.New("must be an array")
	}
	out := []*Schema{}
	for i, element := range all {
		inner, err := Compile(element)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
		out = append(out, inner)
	}
	return out, nil
}

func written(values []any) string {
	var list []string
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return "the values allowed"
		}
		list = append(list, string(b))
	}
	return strings.Join(list, ", ")
}

func decimal(r *big.Rat) string {
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
