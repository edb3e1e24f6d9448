// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/zclconf/go-cty/cty"
)

// attrOf converts a value of a state to one of the framework, of the same type.
func attrOf(v cty.Value) (attr.Value, error) {
	t, err := typeOf(v.Type())
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case types.ListType:
		return convertCollection(v, func(e []attr.Value) (attr.Value, diag.Diagnostics) { return types.ListValue(t.ElemType, e) }, types.ListNull(t.ElemType))
	case types.SetType:
		return convertCollection(v, func(e []attr.Value) (attr.Value, diag.Diagnostics) { return types.SetValue(t.ElemType, e) }, types.SetNull(t.ElemType))
	case types.TupleType:
		return convertCollection(v, func(e []attr.Value) (attr.Value, diag.Diagnostics) { return types.TupleValue(t.ElemTypes, e) }, types.TupleNull(t.ElemTypes))
	case types.MapType:
		return convertMembers(v, func(m map[string]attr.Value) (attr.Value, diag.Diagnostics) { return types.MapValue(t.ElemType, m) }, types.MapNull(t.ElemType))
	case types.ObjectType:
		return convertMembers(v, func(m map[string]attr.Value) (attr.Value, diag.Diagnostics) { return types.ObjectValue(t.AttrTypes, m) }, types.ObjectNull(t.AttrTypes))
	}
	return convertPrimitive(v), nil
}

// convertPrimitive converts a string, a number or a bool. A null without a type becomes a
// string.
func convertPrimitive(v cty.Value) attr.Value {
	null := v.IsNull()
	switch {
	case v.Type() == cty.Bool && null:
		return types.BoolNull()
	case v.Type() == cty.Bool:
		return types.BoolValue(v.True())
	case v.Type() == cty.Number && null:
		return types.NumberNull()
	case v.Type() == cty.Number:
		return types.NumberValue(v.AsBigFloat())
	case null:
		return types.StringNull()
	}
	return types.StringValue(v.AsString())
}

func convertCollection(v cty.Value, of func([]attr.Value) (attr.Value, diag.Diagnostics), null attr.Value) (attr.Value, error) {
	if v.IsNull() {
		return null, nil
	}
	elements := make([]attr.Value, 0, v.LengthInt())
	for _, e := range v.AsValueSlice() {
		a, err := attrOf(e)
		if err != nil {
			return nil, err
		}
		elements = append(elements, a)
	}
	a, diags := of(elements)
	return a, errorOf(diags)
}

func convertMembers(v cty.Value, of func(map[string]attr.Value) (attr.Value, diag.Diagnostics), null attr.Value) (attr.Value, error) {
	if v.IsNull() {
		return null, nil
	}
	all := make(map[string]attr.Value, v.LengthInt())
	for name, e := range v.AsValueMap() {
		a, err := attrOf(e)
		if err != nil {
			return nil, err
		}
		all[name] = a
	}
	a, diags := of(all)
	return a, errorOf(diags)
}

// typeOf converts a type of a state to one of the framework.
func typeOf(t cty.Type) (attr.Type, error) {
	switch {
	case t == cty.Bool:
		return types.BoolType, nil
	case t == cty.Number:
		return types.NumberType, nil
	case t == cty.String, t == cty.DynamicPseudoType: // the latter for null
		return types.StringType, nil
	case t.IsListType():
		e, err := typeOf(t.ElementType())
		return types.ListType{ElemType: e}, err
	case t.IsSetType():
		e, err := typeOf(t.ElementType())
		return types.SetType{ElemType: e}, err
	case t.IsMapType():
		e, err := typeOf(t.ElementType())
		return types.MapType{ElemType: e}, err
	case t.IsObjectType():
		return objectType(t)
	case t.IsTupleType():
		return tupleType(t)
	}
	return nil, fmt.Errorf("a data source cannot return a %s", t.FriendlyName())
}

func objectType(t cty.Type) (attr.Type, error) {
	all := map[string]attr.Type{}
	for name, of := range t.AttributeTypes() {
		a, err := typeOf(of)
		if err != nil {
			return nil, err
		}
		all[name] = a
	}
	return types.ObjectType{AttrTypes: all}, nil
}

func tupleType(t cty.Type) (attr.Type, error) {
	var all []attr.Type
	for _, of := range t.TupleElementTypes() {
		a, err := typeOf(of)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return types.TupleType{ElemTypes: all}, nil
}

// errorOf returns the first error among diagnostics.
func errorOf(diags diag.Diagnostics) error {
	for _, d := range diags.Errors() {
		return errors.New(d.Summary() + ": " + d.Detail())
	}
	return nil
}
