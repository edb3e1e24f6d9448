// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/backendblock"
)

// object holds a value of the configuration by the names of its attributes.
type object map[string]tftypes.Value

// objectOf converts an object. A null object is empty.
func objectOf(v tftypes.Value) (object, error) {
	o := map[string]tftypes.Value{}
	if v.IsNull() {
		return o, nil
	}
	err := v.As(&o)
	return o, err
}

// text returns a string attribute, or "" if it is absent or null.
func (o object) text(name string) (string, error) {
	v, ok := o[name]
	if !ok || v.IsNull() {
		return "", nil
	}
	var s string
	err := v.As(&s)
	return s, err
}

// readBackend reads the arguments of a state store or a data source. Missing arguments
// are read from the environment.
func readBackend(raw tftypes.Value, getenv func(string) string) (backendblock.Backend, error) {
	a := backendblock.New(".")
	o, err := objectOf(raw)
	if err != nil {
		return backendblock.Backend{}, err
	}
	if err := setAll(a, "", o); err != nil {
		return backendblock.Backend{}, err
	}
	for _, block := range backendblock.Blocks() {
		inner, err := blockObjects(o[block])
		if err != nil {
			return backendblock.Backend{}, fmt.Errorf("argument %q: %w", block, err)
		}
		for _, one := range inner {
			if block == "encryption" {
				a.BeginEncryption()
			}
			if err := setAll(a, block, one); err != nil {
				return backendblock.Backend{}, err
			}
		}
	}
	if err := a.Environment(getenv); err != nil {
		return backendblock.Backend{}, err
	}
	return a.Backend()
}

// setAll sets the options of one block.
func setAll(a *backendblock.Arguments, of string, values object) error {
	for _, option := range backendblock.Options() {
		block, name := option.Block()
		v, ok := values[name]
		if block != of || !ok || v.IsNull() {
			continue
		}
		value, err := ctyOf(v, option.Kind)
		if err != nil {
			return fmt.Errorf("argument %q: %w", option.Name, err)
		}
		if err := a.Set(option.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// blockObjects returns the objects that represent the blocks of a name: one object or a list.
func blockObjects(v tftypes.Value) ([]object, error) {
	if v.Type() == nil || v.IsNull() {
		return nil, nil
	}
	one, err := objectOf(v)
	if err == nil {
		return []object{one}, nil
	}
	var list []tftypes.Value
	if err := v.As(&list); err != nil {
		return nil, err
	}
	var all []object
	for _, v := range list {
		one, err := objectOf(v)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// ctyOf converts a value to the type that the schema gives to an option.
func ctyOf(v tftypes.Value, kind backendblock.Kind) (cty.Value, error) {
	switch kind {
	case backendblock.Flag:
		var b bool
		err := v.As(&b)
		return cty.BoolVal(b), err
	case backendblock.Number:
		var n big.Float
		err := v.As(&n)
		return cty.NumberVal(&n), err
	case backendblock.List:
		return ctyList(v)
	}
	var s string
	err := v.As(&s)
	return cty.StringVal(s), err
}

func ctyList(v tftypes.Value) (cty.Value, error) {
	var elements []tftypes.Value
	if err := v.As(&elements); err != nil {
		return cty.NilVal, err
	}
	list := make([]cty.Value, 0, len(elements))
	for _, e := range elements {
		s, err := ctyOf(e, backendblock.Text)
		if err != nil {
			return cty.NilVal, err
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return cty.ListValEmpty(cty.String), nil
	}
	return cty.ListVal(list), nil
}
