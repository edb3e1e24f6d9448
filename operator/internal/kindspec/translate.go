// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	maxDepth       = 32
	maxNodes       = 5_000 // schemas, with $ref expanded
	maxDescription = 1 << 10
	maxString      = 4096 // characters of a string without a bound
	maxElements    = 1000 // of a list or map without a bound
)

// keywords that a schema of each type may have: others would admit what their author refuses.
var keywords = map[string][]string{
	"string":  {"minLength", "maxLength", "pattern", "format", "enum", "const"},
	"number":  {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "enum", "const"},
	"integer": {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "enum", "const"},
	"boolean": {"enum", "const"},
	"array":   {"minItems", "maxItems", "uniqueItems", "items", "prefixItems"},
	"object":  {"minProperties", "maxProperties", "required", "properties", "additionalProperties"},
	"":        {},
}

// translator translates one JSON Schema into structural schemas.
type translator struct {
	root  map[string]any
	nodes int
}

func (t *translator) schema(path string, in map[string]any, depth int, refs []string) (*apiextensions.JSONSchemaProps, error) {
	if t.nodes++; t.nodes > maxNodes {
		return nil, fieldf(path, "more than %d types in one schema", maxNodes)
	}
	if depth > maxDepth {
		return nil, fieldf(path, "nested deeper than %d", maxDepth)
	}
	if ref, ok := in["$ref"]; ok {
		to, refs, err := t.resolve(path, ref, in, refs)
		if err != nil {
			return nil, err
		}
		return t.schema(path, to, depth+1, refs)
	}
	n := &node{translator: t, path: path, in: in, depth: depth, refs: refs}
	if err := n.fillPlain(); err != nil {
		return nil, err
	}
	var err error
	switch n.out.Type {
	case "array":
		err = n.fillArray()
	case "object":
		err = n.fillObject()
	}
	if err != nil {
		return nil, err
	}
	return &n.out, n.setDefault()
}

// resolve returns a reference's target; annotations and a default may stand beside it.
func (t *translator) resolve(path string, v any, in map[string]any, refs []string) (map[string]any, []string, error) {
	ref, _ := v.(string)
	pointer, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil, nil, fieldf(path, "$ref to %q: only references within this schema are supported, such as #/$defs/NAME", ref)
	}
	if slices.Contains(refs, ref) {
		return nil, nil, fieldf(path, "$ref to itself: write the type out")
	}
	var at any = t.root
	for part := range strings.SplitSeq(pointer, "/") {
		object, _ := at.(map[string]any)
		at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	found, ok := at.(map[string]any)
	if !ok {
		return nil, nil, fieldf(path, "$ref to %q: type not found", ref)
	}
	merged := maps.Clone(found)
	for key, value := range in {
		switch {
		case key == "$ref":
		case isAnnotation(key):
			merged[key] = value
		default:
			return nil, nil, fieldf(path, "%s next to $ref: write the type out", key)
		}
	}
	return merged, append(slices.Clone(refs), ref), nil
}

// typeOf reads the type: one, or one and null; "" is any type.
func typeOf(path string, in map[string]any) (kind string, nullable bool, err error) {
	names, isList := in["type"].([]any)
	if !isList && in["type"] != nil {
		names = []any{in["type"]}
	}
	for _, item := range names {
		name, ok := item.(string)
		switch {
		case !ok:
			return "", false, fieldf(path, "type is not the name of a type")
		case isList && name == "null":
			nullable = true
		case kind != "":
			return "", false, fieldf(path, "multiple types: only one is allowed, and null")
		default:
			kind = name
		}
	}
	if isList && kind == "" {
		return "", false, fieldf(path, "null cannot be the only type")
	}
	return kind, nullable, nil
}

// node is one schema that is being translated.
type node struct {
	*translator
	path  string
	in    map[string]any
	out   apiextensions.JSONSchemaProps
	depth int
	refs  []string
}

// fillPlain translates keywords without schemas.
func (n *node) fillPlain() error {
	kind, nullable, err := typeOf(n.path, n.in)
	if err != nil {
		return err
	}
	known, ok := keywords[kind]
	if !ok {
		return fieldf(n.path, "unknown type %q", kind)
	}
	plain := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(n.in)) {
		switch {
		case key == "const":
			plain["enum"] = []any{n.in[key]}
		case slices.Contains(known, key) && !slices.Contains([]string{"items", "prefixItems", "properties", "additionalProperties"}, key):
			plain[key] = n.in[key]
		case key != "type" && !slices.Contains(known, key) && !isAnnotation(key):
			return fieldf(n.path, "a field of type %q cannot have %q: write a rule in spec.schema.validations", kind, key)
		}
	}
	var bounds struct {
		*apiextensions.JSONSchemaProps
		Above  *float64 `json:"exclusiveMinimum"` // a number here, and a boolean in a CRD
		Below  *float64 `json:"exclusiveMaximum"`
		Unique bool     `json:"uniqueItems"`
	}
	bounds.JSONSchemaProps = &n.out
	src, err := json.Marshal(plain)
	if err == nil {
		err = json.Unmarshal(src, &bounds)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fieldf(n.path, "%s cannot be a %s", wrong.Field[strings.LastIndex(wrong.Field, ".")+1:], wrong.Value)
	}
	if err != nil {
		return fieldf(n.path, "%v", err)
	}
	n.out.Type = kind
	if text, ok := n.in["description"].(string); ok {
		n.out.Description = shortenText(text, maxDescription)
	}
	if above := bounds.Above; above != nil && (n.out.Minimum == nil || *above >= *n.out.Minimum) {
		n.out.Minimum = above
		n.out.ExclusiveMinimum = true
	}
	if below := bounds.Below; below != nil && (n.out.Maximum == nil || *below <= *n.out.Maximum) {
		n.out.Maximum = below
		n.out.ExclusiveMaximum = true
	}
	isNull := func(v apiextensions.JSON) bool { return len(v.Raw) == 0 || string(v.Raw) == "null" }
	n.out.Nullable = nullable && (len(n.out.Enum) == 0 || slices.ContainsFunc(n.out.Enum, isNull))
	switch {
	case kind == "":
		n.out.XPreserveUnknownFields = new(true)
		n.out.Nullable = true
	case kind == "string" && n.out.MaxLength == nil:
		n.out.MaxLength = new(int64(maxString))
	case bounds.Unique:
		n.out.XListType = new("atomic")
	}
	return nil
}

func (n *node) fillArray() error {
	// If any value were not nullable, null would count as absent.
	items := apiextensions.JSONSchemaProps{XPreserveUnknownFields: new(true), Nullable: true}
	prefix, tuple := n.in["prefixItems"]
	of, typed := n.in["items"]
	switch list, ok := prefix.([]any); {
	case tuple && (!ok || of != nil):
		return fieldf(n.path, "a tuple must have prefixItems as a list, and no items")
	case tuple: // the types in a tuple differ; the module checks them. Its length is fixed.
		n.out.MinItems = new(int64(len(list)))
		n.out.MaxItems = new(int64(len(list)))
	case typed:
		props, err := n.childSchema("[]", of)
		if err != nil {
			return err
		}
		items = *props
	}
	n.out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: &items}
	if n.out.MaxItems == nil {
		n.out.MaxItems = new(int64(maxElements))
	}
	if n.out.XListType != nil && !items.Nullable && slices.Contains([]string{"string", "number", "integer", "boolean"}, items.Type) {
		n.out.XListType = new("set")
	}
	return nil
}

func (n *node) fillObject() error {
	properties, closed := n.in["properties"]
	object, isObject := properties.(map[string]any)
	more, hasMore := n.in["additionalProperties"]
	hasMore = hasMore && more != false
	switch {
	case closed && !isObject:
		return fieldf(n.path, "properties is not an object")
	case closed && hasMore && len(object) > 0:
		return fieldf(n.path, "properties and additionalProperties: an object has names that are known, a map does not")
	case closed && !hasMore, more == false:
		return n.addProperties(object)
	case len(n.out.Required) > 0:
		return fieldf(n.path, "required without properties: define them")
	case !hasMore || more == true:
		n.out.XPreserveUnknownFields = new(true)
		return nil
	}
	props, err := n.childSchema("{}", more)
	if err != nil {
		return err
	}
	n.out.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: props}
	if n.out.MaxProperties == nil {
		n.out.MaxProperties = new(int64(maxElements))
	}
	return nil
}

func (n *node) addProperties(object map[string]any) error {
	n.out.Properties = map[string]apiextensions.JSONSchemaProps{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		props, err := n.childSchema("."+name, object[name])
		if err != nil {
			return err
		}
		n.out.Properties[name] = *props
	}
	for _, name := range n.out.Required {
		if _, ok := n.out.Properties[name]; !ok {
			return fieldf(n.path, "%s is required, but is not a property", name)
		}
	}
	return nil
}

func (n *node) childSchema(at string, v any) (*apiextensions.JSONSchemaProps, error) {
	path := n.path + at
	in, err := asSchema(path, v)
	if err != nil {
		return nil, err
	}
	if in["writeOnly"] == true {
		return nil, fieldf(path, "only a whole input can be writeOnly")
	}
	return n.translator.schema(path, in, n.depth+1, n.refs)
}

// isAnnotation reports whether a keyword says nothing about which values are valid.
func isAnnotation(key string) bool {
	return strings.HasPrefix(key, "x-") ||
		slices.Contains([]string{"default", "writeOnly", "description", "title", "examples", "deprecated", "readOnly", "$comment", "$defs", "definitions", "$schema"}, key)
}

// setDefault sets the default, unless the API server refuses it: the module has it.
func (n *node) setDefault() error {
	v, ok := n.in["default"]
	if !ok || v == nil || n.in["writeOnly"] == true {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fieldf(n.path, "%v", err)
	}
	with := n.out.DeepCopy()
	with.Default = &apiextensions.JSON{Raw: b}
	if validDefault(with) {
		n.out.Default = with.Default
	}
	return nil
}

func shortenText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
