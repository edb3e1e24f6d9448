// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	internal "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// checker validates objects like the API server, with its code.
type checker struct {
	crd    *apiextensions.CustomResourceDefinition
	schema *structural.Structural
	values validation.SchemaValidator
	rules  *cel.Validator
}

// newChecker returns the checker of a CRD, and an error if the API server would refuse it.
func newChecker(crd *apiextensions.CustomResourceDefinition) (*checker, error) {
	var whole internal.CustomResourceDefinition
	if err := apiextensions.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &whole, nil); err != nil {
		return nil, err
	}
	whole.Status.StoredVersions = []string{Version} // as the API server does for a new one
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), &whole); len(errs) > 0 {
		return nil, schemaError(errs[0])
	}
	return checkerOf(crd)
}

// checkerOf returns the checker of a CRD that the API server has accepted.
func checkerOf(crd *apiextensions.CustomResourceDefinition) (*checker, error) {
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil {
		return nil, errors.New("a CRD of a generated kind has one version with a schema")
	}
	props, err := internalProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	c := &checker{crd: crd}
	if c.schema, err = structural.NewStructural(props); err != nil {
		return nil, err
	}
	if c.values, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	c.rules = cel.NewValidator(c.schema, true, celconfig.PerCallLimit)
	return c, nil
}

func internalProps(props *apiextensions.JSONSchemaProps) (*internal.JSONSchemaProps, error) {
	var out internal.JSONSchemaProps
	return &out, apiextensions.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &out, nil)
}

// schemaError is the API server's error for a schema, with its author's path.
func schemaError(e *field.Error) error {
	_, path, ok := strings.Cut(e.Field, "openAPIV3Schema")
	if !ok {
		return &FieldError{e.Field, e.ErrorBody()}
	}
	if rule, ok := strings.CutPrefix(path, ".properties[spec].x-kubernetes-validations"); ok {
		return &FieldError{"spec.schema.validations" + rule, e.Detail} // without the rule itself, which the error quotes in Go syntax
	}
	path = strings.NewReplacer(".properties[", ".", "]", "", ".items", "[]", ".additionalProperties", "{}").Replace(path)
	return &FieldError{strings.TrimPrefix(path, "."), e.ErrorBody()}
}

// admit changes an object as at creation, and returns what is invalid.
func (c *checker) admit(object map[string]any) field.ErrorList {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.schema)
	defaulting.Default(object, c.schema)
	pruning.Prune(object, c.schema, true)
	errs := validation.ValidateCustomResource(nil, object, c.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.schema, object)...)
	if c.rules != nil {
		ruled, _ := c.rules.Validate(context.Background(), nil, c.schema, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, ruled...)
	}
	return errs
}

// Invalid returns the API server's errors for an object created now, or nil.
func (k *Kind) Invalid(o *unstructured.Unstructured) field.ErrorList {
	return k.check.admit(runtime.DeepCopyJSON(o.Object))
}

// InvalidAs returns the errors that the API server would have if an object of a CRD were created
// now, unknown fields included.
func InvalidAs(crd *apiextensions.CustomResourceDefinition, o *unstructured.Unstructured) (field.ErrorList, error) {
	c, err := checkerOf(crd)
	if err != nil {
		return nil, err
	}
	object := runtime.DeepCopyJSON(o.Object)
	var unknown field.ErrorList
	for _, path := range pruning.PruneWithOptions(runtime.DeepCopyJSON(o.Object), c.schema, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		unknown = append(unknown, field.Invalid(field.NewPath(path), "", "unknown field"))
	}
	return append(unknown, c.admit(object)...), nil
}

// Admit changes an object as at creation, unknown fields dropped, and returns errors.
func (k *Kind) Admit(o *unstructured.Unstructured) field.ErrorList { return k.check.admit(o.Object) }

func validDefault(props *apiextensions.JSONSchemaProps) bool {
	in, err := internalProps(props)
	if err != nil {
		return false
	}
	s, err := structural.NewStructural(in)
	if err != nil {
		return false
	}
	errs, err := defaulting.ValidateDefaults(context.Background(), nil, s, false, true)
	return err == nil && len(errs) == 0
}

func checkValue(props *apiextensions.JSONSchemaProps, value json.RawMessage) error {
	in, err := internalProps(props)
	if err != nil {
		return err
	}
	v, _, err := validation.NewSchemaValidator(in)
	if err != nil {
		return err
	}
	var decoded any
	if err := utiljson.Unmarshal(value, &decoded); err != nil { // whole numbers are integers
		return err
	}
	if decoded == nil && (props.Nullable || props.Type == "") {
		return nil
	}
	if errs := validation.ValidateCustomResource(nil, decoded, v); len(errs) > 0 {
		return fmt.Errorf("%s", strings.TrimPrefix(errs[0].Error(), "<nil>: "))
	}
	return nil
}
