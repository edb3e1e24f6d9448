// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/cel"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

const (
	maxSchema = 1 << 20 // JSON Schema of a module, in bytes; same as for descriptions
	maxInputs = 200
)

// FieldError says which field of a definition, or of a module, does not fit a kind.
type FieldError struct{ Path, Message string }

func (e *FieldError) Error() string { return e.Path + ": " + e.Message }

func fieldf(path, format string, args ...any) error {
	return &FieldError{path, fmt.Sprintf(format, args...)}
}

type input struct {
	schema    map[string]any
	required  bool
	sensitive bool
}

// inputName matches names that users can write: CEL cannot read other properties.
var inputName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// inputsOf reads the JSON Schema of an object. from is its path, for errors.
func inputsOf(from string, src json.RawMessage) (map[string]input, *translator, error) {
	if len(src) > maxSchema {
		return nil, nil, fieldf(from, "JSON Schema of %d bytes, the limit is %d", len(src), maxSchema)
	}
	var whole map[string]any
	var named struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := cmp.Or(d.Decode(&whole), json.Unmarshal(src, &named)); err != nil {
		return nil, nil, fieldf(from, "not a JSON Schema of an object: %v", err)
	}
	if len(named.Properties) > maxInputs {
		return nil, nil, fieldf(from, "%d inputs, the limit is %d", len(named.Properties), maxInputs)
	}
	t := &translator{root: whole}
	properties, _ := whole["properties"].(map[string]any)
	all := map[string]input{}
	for name, value := range properties {
		s, err := asSchema(from+"."+name, value)
		if err != nil {
			return nil, nil, err
		}
		all[name] = input{schema: s, required: slices.Contains(named.Required, name), sensitive: s["writeOnly"] == true}
	}
	return all, t, nil
}

// setInputs determines the inputs of the module (all), and those that users see (shown).
func (k *Kind) setInputs() error {
	var err error
	if len(k.Module.Inputs) > 0 {
		if k.all, k.types, err = inputsOf("inputs", k.Module.Inputs); err != nil {
			return err
		}
	}
	def := &k.Definition.Spec
	open := k.all
	t := k.types
	from := "inputs"
	switch {
	case def.Schema.Inline != nil:
		from = "spec.schema.inline"
		if open, t, err = inputsOf(from, def.Schema.Inline.Raw); err != nil {
			return err
		}
		if open, err = k.narrowInputs(open); err != nil {
			return err
		}
	case len(k.Module.Inputs) == 0:
		return fieldf("inputs", "the module has no description: publish it again with okara, or write spec.schema.inline")
	}
	visible, err := k.visibleInputs(open)
	if err != nil {
		return err
	}
	k.shown = map[string]visibleInput{}
	for _, name := range slices.Sorted(maps.Keys(visible)) {
		if !inputName.MatchString(name) {
			return fieldf(from+"."+name, "it cannot be a field: a name has only lower-case letters, digits and _; hide it, or set it in spec.values")
		}
		props, err := t.schema(from+"."+name, visible[name].schema, 0, nil)
		if err != nil {
			return err
		}
		in := visibleInput{name: name, input: visible[name], props: *props}
		if in.sensitive {
			if in.props, err = secretProps(from+"."+name, props); err != nil {
				return err
			}
			in.field = name + "From"
		} else {
			in.field = name
		}
		k.shown[name] = in
	}
	return k.checkRequired()
}

// narrowInputs checks a definition's own schema against known inputs.
func (k *Kind) narrowInputs(inline map[string]input) (map[string]input, error) {
	if len(k.Module.Inputs) == 0 {
		return inline, nil
	}
	for name, in := range inline {
		of, ok := k.all[name]
		if !ok {
			return nil, fieldf("spec.schema.inline."+name, "the module has no input of this name")
		}
		_, set := in.schema["default"]
		in.required = in.required || of.required && !set
		in.sensitive = in.sensitive || of.sensitive
		inline[name] = in
	}
	return inline, nil
}

// visibleInputs leaves out the inputs that a definition hides or sets itself.
func (k *Kind) visibleInputs(open map[string]input) (map[string]input, error) {
	def := &k.Definition.Spec
	for _, list := range []struct {
		field string
		names []v1alpha1.InputName
	}{{"spec.schema.expose", def.Schema.Expose}, {"spec.schema.hide", def.Schema.Hide}} {
		for _, name := range list.names {
			if _, ok := open[string(name)]; !ok {
				return nil, fieldf(list.field, "no input %s", name)
			}
		}
	}
	if err := k.checkSet(); err != nil {
		return nil, err
	}
	visible := map[string]input{}
	for name, in := range open {
		exposed := len(def.Schema.Expose) == 0 || slices.Contains(def.Schema.Expose, v1alpha1.InputName(name))
		if exposed && !slices.Contains(def.Schema.Hide, v1alpha1.InputName(name)) && !k.setsInput(name) {
			visible[name] = in
		}
	}
	return visible, nil
}

func (k *Kind) setsInput(name string) bool {
	def := &k.Definition.Spec
	_, value := def.Values[name]
	return value || slices.ContainsFunc(def.Run.VarsFrom, func(from v1alpha1.InputsFrom) bool {
		_, ok := from.Keys[name]
		return ok
	})
}

// checkSet checks the inputs that a definition sets itself against the module.
func (k *Kind) checkSet() error {
	if len(k.Module.Inputs) == 0 {
		return nil
	}
	def := &k.Definition.Spec
	for _, name := range slices.Sorted(maps.Keys(def.Values)) {
		in, ok := k.all[name]
		if !ok {
			return fieldf("spec.values."+name, "the module has no input of this name")
		}
		props, err := k.types.schema("inputs."+name, in.schema, 0, nil)
		if err != nil {
			return err
		}
		if err := checkValue(props, def.Values[name].Raw); err != nil {
			return fieldf("spec.values."+name, "%v", err)
		}
	}
	for i, from := range def.Run.VarsFrom {
		for _, name := range slices.Sorted(maps.Keys(from.Keys)) {
			path := fmt.Sprintf("spec.run.varsFrom[%d].keys.%s", i, name)
			in, ok := k.all[name]
			if !ok {
				return fieldf(path, "the module has no input of this name")
			}
			props, err := k.types.schema("inputs."+name, in.schema, 0, nil)
			if err == nil {
				_, err = secretProps(path, props)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRequired finds required inputs that neither users nor the definition can set.
func (k *Kind) checkRequired() error {
	for _, name := range slices.Sorted(maps.Keys(k.all)) {
		if _, open := k.shown[name]; k.all[name].required && !open && !k.setsInput(name) {
			return fieldf("inputs."+name, "the module requires it: show it to users, or set it in spec.values")
		}
	}
	return nil
}

// visibleInput is an input that users see.
type visibleInput struct {
	input
	name  string
	field string // of spec
	props apiextensions.JSONSchemaProps
}

// secretProps is the schema of a Secret in place of a value, a string to the module.
func secretProps(path string, of *apiextensions.JSONSchemaProps) (apiextensions.JSONSchemaProps, error) {
	if of.Type == "array" || of.Type == "object" {
		return apiextensions.JSONSchemaProps{}, fieldf(path, "a Secret contains a string, but the module expects an %s: hide it", of.Type)
	}
	text := func(limit int64, description string) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: "string", MinLength: new(int64(1)), MaxLength: new(limit), Description: description}
	}
	return apiextensions.JSONSchemaProps{
		Type: "object", Description: of.Description, Required: []string{"key", "name"},
		Properties: map[string]apiextensions.JSONSchemaProps{
			"name": text(253, "Name of a Secret in the same namespace, which allows this use with its annotation "+v1alpha1.AnnotationUse+"."),
			"key":  text(253, "Key of the Secret that contains the value."),
		},
	}, nil
}

func (k *Kind) specSchema() (apiextensions.JSONSchemaProps, error) {
	props := apiextensions.JSONSchemaProps{Type: "object", Description: "Inputs of the module, and how it runs.", Properties: map[string]apiextensions.JSONSchemaProps{RunField: runSchema()}}
	for _, name := range slices.Sorted(maps.Keys(k.shown)) {
		in := k.shown[name]
		props.Properties[in.field] = in.props
		if in.required {
			props.Required = append(props.Required, in.field)
		}
	}
	if len(props.Required) == 0 {
		props.Default = &apiextensions.JSON{Raw: []byte("{}")} // rules about changes need both sides
	}
	for _, v := range k.Definition.Spec.Schema.Validations {
		props.XValidations = append(props.XValidations, apiextensions.ValidationRule{Rule: v.Rule, Message: v.Message})
	}
	for _, name := range k.Definition.Spec.Schema.Immutable {
		in, ok := k.shown[string(name)]
		if !ok {
			return props, fieldf("spec.schema.immutable", "no input %s that users see", name)
		}
		if in.props.Type == "" {
			return props, fieldf("spec.schema.immutable", "the input %s accepts anything, which cannot be compared: give it a type in spec.schema.inline", name)
		}
		field, ok := cel.Escape(in.field)
		if !ok {
			return props, fieldf("spec.schema.immutable", "a rule cannot use the name %s", name)
		}
		props.XValidations = append(props.XValidations, apiextensions.ValidationRule{
			Rule:      fmt.Sprintf("has(self.%[1]s) == has(oldSelf.%[1]s) && (!has(self.%[1]s) || self.%[1]s == oldSelf.%[1]s)", field),
			Message:   in.field + " cannot change: delete the object and create another",
			FieldPath: "." + in.field,
		})
	}
	return props, nil
}

// asSchema returns a JSON Schema, which may also be a boolean.
func asSchema(path string, v any) (map[string]any, error) {
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	case bool:
		if v {
			return map[string]any{}, nil
		}
		return nil, fieldf(path, "a schema that accepts nothing")
	}
	return nil, fieldf(path, "not a JSON Schema")
}
