// SPDX-License-Identifier: Apache-2.0

package description

import (
	"reflect"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// typeEffect tells whether what the old type accepts is accepted by the new one.
func typeEffect(before, now string) string {
	was, wasDefaults, ok := parseConstraint(before)
	is, isDefaults, ok2 := parseConstraint(now)
	switch {
	case !ok || !ok2 || was.HasDynamicTypes() && !is.HasDynamicTypes():
		return MayBreak
	case is == cty.DynamicPseudoType:
		return New
	}
	full := was.WithoutOptionalAttributesDeep()
	least := withoutOptional(was)
	switch {
	case convert.GetConversionUnsafe(full, is) == nil && !full.Equals(is), convert.GetConversionUnsafe(least, is) == nil && !least.Equals(is):
		return Breaks
	case !acceptsType(is, full), !acceptsType(is, least), // of some values
		convert.GetConversionUnsafe(is.WithoutOptionalAttributesDeep(), full) == nil && !full.Equals(is.WithoutOptionalAttributesDeep()): // an attribute is dropped in silence
		return MayBreak
	case changesDefault(ctySchema(was, wasDefaults), ctySchema(is, isDefaults)):
		return MayBreak
	}
	return New
}

// changesDefault reports whether an attribute that both types have has another default.
func changesDefault(was, is schema) bool {
	all, _ := was["properties"].(schema)
	now, _ := is["properties"].(schema)
	for name := range all {
		a, _ := all[name].(schema)
		b, both := now[name].(schema)
		if both && (!reflect.DeepEqual(a["default"], b["default"]) || changesDefault(a, b)) {
			return true
		}
	}
	for _, of := range []string{"items", "additionalProperties"} {
		a, _ := was[of].(schema)
		if b, both := is[of].(schema); both && changesDefault(a, b) {
			return true
		}
	}
	tuple, _ := was["prefixItems"].([]schema)
	items, _ := is["prefixItems"].([]schema)
	for i := range min(len(tuple), len(items)) {
		if changesDefault(tuple[i], items[i]) {
			return true
		}
	}
	return false
}

func acceptsType(t, given cty.Type) bool {
	return given.Equals(t) || convert.GetConversion(given, t) != nil
}

// withoutOptional returns the type of a value that leaves out what is optional.
func withoutOptional(t cty.Type) cty.Type {
	switch {
	case t.IsListType():
		return cty.List(withoutOptional(t.ElementType()))
	case t.IsSetType():
		return cty.Set(withoutOptional(t.ElementType()))
	case t.IsMapType():
		return cty.Map(withoutOptional(t.ElementType()))
	case t.IsTupleType():
		var all []cty.Type
		for _, e := range t.TupleElementTypes() {
			all = append(all, withoutOptional(e))
		}
		return cty.Tuple(all)
	case t.IsObjectType():
		all := map[string]cty.Type{}
		for name, e := range t.AttributeTypes() {
			if !t.AttributeOptional(name) {
				all[name] = withoutOptional(e)
			}
		}
		return cty.Object(all)
	}
	return t
}
