// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
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

// translator translates one JSON Schema into structural schemas.
type translator struct {
	root  map[string]any
	nodes int
}

// schema translates one schema. refs are the references that lead to it.
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
	kind, nullable, err := typeOf(path, in)
	if err != nil {
		return nil, err
	}
	n := &node{translator: t, path: path, in: in, depth: depth, refs: refs}
	n.out.Nullable = nullable
	if err := n.fillType(kind); err != nil {
		return nil, err
	}
	if err := n.readRest(); err != nil {
		return nil, err
	}
	return &n.out, n.setDefault()
}

// resolve returns the target of a reference. Annotations and a default are allowed beside
// a reference.
func (t *translator) resolve(path string, v any, in map[string]any, refs []string) (map[string]any, []string, error) {
	ref, _ := v.(string)
	pointer, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil, nil, fieldf(path, "$ref to %q: only a part of this schema can be meant, as #/$defs/NAME", ref)
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
		return nil, nil, fieldf(path, "$ref to %q: there is no such type", ref)
	}
	merged := maps.Clone(found)
	for key, value := range in {
		switch {
		case key == "$ref":
		case key == "default" || key == "writeOnly" || isAnnotation(key):
			merged[key] = value
		default:
			return nil, nil, fieldf(path, "%s beside $ref: write the type out", key)
		}
	}
	return merged, append(slices.Clone(refs), ref), nil
}

// typeOf reads the type: one, or one and null; "" is any type.
func typeOf(path string, in map[string]any) (kind string, nullable bool, err error) {
	switch v := in["type"].(type) {
	case nil:
		return "", false, nil
	case string:
		return v, false, nil
	case []any:
		for _, item := range v {
			name, _ := item.(string)
			switch {
			case name == "null":
				nullable = true
			case kind == "" && name != "":
				kind = name
			default:
				return "", false, fieldf(path, "several types: a field has one, and null")
			}
		}
		if kind == "" {
			return "", false, fieldf(path, "a type that is null alone")
		}
		return kind, nullable, nil
	}
	return "", false, fieldf(path, "type is not the name of a type")
}

// node is one schema that is being translated.
type node struct {
	*translator
	path  string
	in    map[string]any
	out   apiextensions.JSONSchemaProps
	depth int
	refs  []string

	used []string // keywords that were read
}

// fillType translates the keywords that depend on the type.
func (n *node) fillType(kind string) error {
	n.out.Type = kind
	n.takeKeyword("type")
	switch kind {
	case "string":
		return n.fillString()
	case "number", "integer":
		return n.fillNumber()
	case "boolean":
		return n.values()
	case "array":
		return n.fillArray()
	case "object":
		return n.fillObject()
	case "":
		n.out = anyValue()
		return nil
	}
	return fieldf(n.path, "there is no type %q", kind)
}

// anyValue is the schema of any value. If it were not nullable, null would count as absent.
func anyValue() apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{XPreserveUnknownFields: new(true), Nullable: true}
}

func (n *node) fillString() error {
	err := cmp.Or(n.readCount("minLength", &n.out.MinLength), n.readCount("maxLength", &n.out.MaxLength), n.readString("pattern", &n.out.Pattern), n.readString("format", &n.out.Format), n.values())
	if n.out.MaxLength == nil {
		n.out.MaxLength = new(int64(maxString))
	}
	return err
}

// fillNumber also turns the exclusive bounds, which are numbers in JSON Schema, into the
// booleans of a CRD.
func (n *node) fillNumber() error {
	var above, below *float64
	if err := cmp.Or(
		n.readNumber("minimum", &n.out.Minimum), n.readNumber("maximum", &n.out.Maximum), n.readNumber("multipleOf", &n.out.MultipleOf),
		n.readNumber("exclusiveMinimum", &above), n.readNumber("exclusiveMaximum", &below), n.values(),
	); err != nil {
		return err
	}
	if above != nil && (n.out.Minimum == nil || *above >= *n.out.Minimum) {
		n.out.Minimum = above
		n.out.ExclusiveMinimum = true
	}
	if below != nil && (n.out.Maximum == nil || *below <= *n.out.Maximum) {
		n.out.Maximum = below
		n.out.ExclusiveMaximum = true
	}
	return nil
}

func (n *node) fillArray() error {
	if err := cmp.Or(n.readCount("minItems", &n.out.MinItems), n.readCount("maxItems", &n.out.MaxItems)); err != nil {
		return err
	}
	items := anyValue()
	if prefix, ok := n.takeKeyword("prefixItems"); ok {
		// The types in a tuple differ; the module checks them. Its length is fixed.
		list, ok := prefix.([]any)
		if !ok || n.in["items"] != nil {
			return fieldf(n.path, "a tuple has prefixItems, which is a list, and no items")
		}
		n.out.MinItems = new(int64(len(list)))
		n.out.MaxItems = new(int64(len(list)))
	} else if v, ok := n.takeKeyword("items"); ok {
		props, err := n.childSchema("[]", v)
		if err != nil {
			return err
		}
		items = *props
	}
	n.out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: &items}
	if n.out.MaxItems == nil {
		n.out.MaxItems = new(int64(maxElements))
	}
	if unique, ok := n.takeKeyword("uniqueItems"); ok && unique == true {
		n.out.XListType = new("atomic")
		if !items.Nullable && slices.Contains([]string{"string", "number", "integer", "boolean"}, items.Type) {
			n.out.XListType = new("set")
		}
	}
	return nil
}

func (n *node) fillObject() error {
	if err := cmp.Or(n.readCount("minProperties", &n.out.MinProperties), n.readCount("maxProperties", &n.out.MaxProperties)); err != nil {
		return err
	}
	required, hasRequired := n.takeKeyword("required")
	var err error
	if n.out.Required, err = readNames(n.path, required); err != nil {
		return err
	}
	properties, closed := n.takeKeyword("properties")
	more, hasMore := n.takeKeyword("additionalProperties")
	if more == false {
		hasMore = false
	}
	switch object, ok := properties.(map[string]any); {
	case closed && !ok:
		return fieldf(n.path, "properties is not an object")
	case closed && hasMore && len(object) > 0:
		return fieldf(n.path, "properties and additionalProperties: an object has names that are known, a map does not")
	case closed && !hasMore:
		return n.addProperties(object)
	case more == false:
		return n.addProperties(nil)
	case hasRequired && len(n.out.Required) > 0:
		return fieldf(n.path, "required without properties: say what they are")
	}
	if !hasMore || more == true {
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

// childSchema translates a schema inside this one.
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

// values reads enum and const.
func (n *node) values() error {
	list, ok := n.takeKeyword("enum")
	values, isList := list.([]any)
	if ok && !isList {
		return fieldf(n.path, "enum is not a list")
	}
	if constant, ok := n.takeKeyword("const"); ok {
		values = []any{constant}
	}
	null := false
	for _, v := range values {
		null = null || v == nil
		b, err := json.Marshal(v)
		if err != nil {
			return fieldf(n.path, "%v", err)
		}
		n.out.Enum = append(n.out.Enum, apiextensions.JSON{Raw: b})
	}
	n.out.Nullable = n.out.Nullable && (null || len(values) == 0)
	return nil
}

// readRest reads the annotations, and refuses a keyword that was not read: objects would be
// valid that the author of the schema meant to refuse.
func (n *node) readRest() error {
	if text, ok := n.in["description"].(string); ok {
		n.out.Description = shortenText(text, maxDescription)
	}
	for _, key := range slices.Sorted(maps.Keys(n.in)) {
		if !slices.Contains(n.used, key) && key != "default" && key != "writeOnly" && !isAnnotation(key) {
			return fieldf(n.path, "a field of type %q cannot have %q: write a rule in spec.schema.validations", n.out.Type, key)
		}
	}
	return nil
}

// isAnnotation reports whether a keyword is for display.
func isAnnotation(key string) bool {
	return strings.HasPrefix(key, "x-") || slices.Contains([]string{"description", "title", "examples", "deprecated", "readOnly", "$comment", "$defs", "definitions", "$schema"}, key)
}

// setDefault sets the default. One that the API server would refuse is left to the
// module, which has it too.
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

func (n *node) takeKeyword(key string) (any, bool) {
	v, ok := n.in[key]
	n.used = append(n.used, key)
	return v, ok
}

// readCount reads a non-negative integer.
func (n *node) readCount(key string, to **int64) error {
	var f *float64
	if err := n.readNumber(key, &f); err != nil || f == nil {
		return err
	}
	if *f < 0 || *f != math.Trunc(*f) || *f > 1<<53 {
		return fieldf(n.path, "%s is not a count", key)
	}
	*to = new(int64(*f))
	return nil
}

func (n *node) readNumber(key string, to **float64) error {
	v, ok := n.takeKeyword(key)
	if !ok {
		return nil
	}
	number, ok := v.(json.Number)
	if !ok {
		return fieldf(n.path, "%s is not a number", key)
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return fieldf(n.path, "%s is out of range", key)
	}
	*to = &f
	return nil
}

func (n *node) readString(key string, to *string) error {
	v, ok := n.takeKeyword(key)
	text, isText := v.(string)
	if ok && !isText {
		return fieldf(n.path, "%s is not a string", key)
	}
	*to = text
	return nil
}

func shortenText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
