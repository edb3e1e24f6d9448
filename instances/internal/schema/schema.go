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
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	maxPattern      = 1_000     // bytes
	maxInstructions = 100_000   // of all patterns of a schema
	maxSteps        = 1_000_000 // for checking a value against a schema
	maxProblems     = 20
	maxWritten      = 1_000 // bytes of the allowed values quoted in a problem
)

// Schema is a compiled schema. It is immutable.
type Schema struct {
	never      bool // the schema false
	types      []string
	choices    []choice
	bounds     map[string]*big.Rat // by keyword, like counts
	counts     map[string]int64
	pattern    pattern
	unique     bool
	prefix     []*Schema
	items      *Schema // for elements after prefix
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

// choice is enum or const.
type choice struct {
	values []string // in the form of canonical
	text   string
}

// pattern is a regular expression; its size is 0 if there is none.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

type patterned struct {
	name pattern
	s    *Schema
}

// group is allOf, anyOf or oneOf.
type group struct {
	keyword string
	list    []*Schema
}

// isUnsupported reports whether a keyword would have to be checked, but is not supported.
func isUnsupported(keyword string) bool {
	switch keyword {
	case "contains", "minContains", "maxContains", "dependentRequired", "dependentSchemas", "dependencies",
		"unevaluatedItems", "unevaluatedProperties", "additionalItems":
		return true
	}
	return strings.HasPrefix(keyword, "$") && keyword != "$schema" && keyword != "$comment"
}

// Compile compiles a schema: a value decoded by encoding/json, with numbers as
// [json.Number], float64 or int.
func Compile(document any) (*Schema, error) { return new(compiler).schema(document) }

// compiler compiles one schema and all schemas in it.
type compiler struct {
	instructions int
}

func (c *compiler) schema(document any) (*Schema, error) {
	if all, ok := document.(bool); ok {
		return &Schema{never: !all}, nil
	}
	d, err := asType[map[string]any](document, "an object, true or false")
	s := &Schema{bounds: map[string]*big.Rat{}, counts: map[string]int64{}}
	for _, keyword := range slices.Sorted(maps.Keys(d)) {
		if isUnsupported(keyword) {
			return nil, fmt.Errorf("the keyword %q is not supported", keyword)
		}
		if err := c.compileKeyword(s, keyword, d[keyword]); err != nil {
			return nil, fmt.Errorf("%s: %w", keyword, err)
		}
	}
	return s, err
}

func (c *compiler) compileKeyword(s *Schema, keyword string, v any) (err error) {
	switch keyword {
	case "type":
		s.types, err = typeNames(v)
	case "enum", "const":
		err = s.addChoice(keyword, v)
	case "pattern":
		s.pattern, err = c.compilePattern(v)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		s.bounds[keyword], err = parseLimit(keyword, v)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		s.counts[keyword], err = wholeNumber(v)
	case "uniqueItems":
		s.unique, err = asType[bool](v, "true or false")
	case "required":
		s.required, err = typeNameList(v)
	case "properties":
		s.properties, err = c.compileProperties(v)
	case "patternProperties":
		err = c.addPatterns(s, v)
	case "prefixItems":
		s.prefix, err = c.compileList(v)
	case "allOf", "anyOf", "oneOf":
		err = c.addGroup(s, keyword, v)
	default:
		if to := s.innerSchema(keyword); to != nil {
			*to, err = c.schema(v)
		}
	}
	return err
}

// innerSchema returns where the schema of a keyword is stored; nil for other keywords.
func (s *Schema) innerSchema(keyword string) **Schema {
	return map[string]**Schema{
		"items": &s.items, "propertyNames": &s.names, "additionalProperties": &s.additional,
		"not": &s.not, "if": &s.condition, "then": &s.then, "else": &s.otherwise,
	}[keyword]
}

func (s *Schema) addChoice(keyword string, v any) error {
	list := []any{v}
	word := "is not "
	if keyword == "enum" {
		var err error
		if list, err = asType[[]any](v, "an array"); err != nil {
			return err
		}
		word = "is not one of "
	}
	made := choice{text: word + joinAllowed(list)}
	for _, v := range list {
		made.values = append(made.values, canonicalText(v))
	}
	s.choices = append(s.choices, made)
	return nil
}

func parseLimit(keyword string, v any) (*big.Rat, error) {
	n, ok := exactNumber(v)
	if !ok {
		return nil, errors.New("must be a number")
	}
	if keyword == "multipleOf" && n.Sign() <= 0 {
		return nil, errors.New("must be more than 0")
	}
	return n, nil
}

func wholeNumber(v any) (int64, error) {
	n, ok := exactNumber(v)
	if !ok || !n.IsInt() || n.Sign() < 0 || !n.Num().IsInt64() {
		return 0, errors.New("must be a whole number of 0 or more")
	}
	return n.Num().Int64(), nil
}

func (c *compiler) addPatterns(s *Schema, v any) error {
	inner, err := c.compileProperties(v)
	for _, name := range slices.Sorted(maps.Keys(inner)) {
		re, errName := c.compilePattern(name)
		err = cmp.Or(err, errName)
		s.patterns = append(s.patterns, patterned{re, inner[name]})
	}
	return err
}

func (c *compiler) addGroup(s *Schema, keyword string, v any) error {
	list, err := c.compileList(v)
	if err == nil && len(list) == 0 {
		err = errors.New("must not be empty")
	}
	s.groups = append(s.groups, group{keyword, list})
	return err
}

func typeNames(v any) ([]string, error) {
	list, err := typeNameList(v)
	if name, ok := v.(string); ok {
		list = []string{name}
		err = nil
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

func typeNameList(v any) ([]string, error) {
	list, err := asType[[]any](v, "an array of strings")
	var out []string
	for _, element := range list {
		name, errName := asType[string](element, "an array of strings")
		err = cmp.Or(err, errName)
		out = append(out, name)
	}
	return out, err
}

// compilePattern counts the instructions of a pattern first: a short pattern may have many.
func (c *compiler) compilePattern(v any) (pattern, error) {
	source, err := asType[string](v, "a string")
	if err != nil {
		return pattern{}, err
	}
	if len(source) > maxPattern {
		return pattern{}, fmt.Errorf("a pattern of %d bytes, the limit is %d", len(source), maxPattern)
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return pattern{}, err
	}
	size := len(program.Inst)
	if c.instructions += size; c.instructions > maxInstructions {
		return pattern{}, errors.New("the patterns are too large")
	}
	re, err := regexp.Compile(source)
	return pattern{re, size}, err
}

func (c *compiler) compileProperties(v any) (map[string]*Schema, error) {
	all, err := asType[map[string]any](v, "an object")
	out := map[string]*Schema{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if out[name], err = c.schema(all[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, err
}

func (c *compiler) compileList(v any) ([]*Schema, error) {
	all, err := asType[[]any](v, "an array")
	out := make([]*Schema, len(all))
	for i, element := range all {
		if out[i], err = c.schema(element); err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
	}
	return out, err
}

func asType[T any](v any, what string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, errors.New("must be " + what)
	}
	return t, nil
}

func joinAllowed(values []any) string {
	var list []string
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return "the values allowed"
		}
		list = append(list, string(b))
	}
	if text := strings.Join(list, ", "); len(text) <= maxWritten {
		return text
	}
	return "the values allowed"
}
