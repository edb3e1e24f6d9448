// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// arity is how many arguments a function takes. None of them reads files, the
// environment, the clock or the network.
func arity(name string) (least, most int, ok bool) {
	switch name {
	case "lower", "upper", "jsonencode", "urlencode":
		return 1, 1, true
	case "join", "trim":
		return 2, 2, true
	case "replace", "substr":
		return 3, 3, true
	case "format":
		return 1, maxArguments, true
	}
	return 0, 0, false
}

// call computes a function. The arguments have at most maxValue together.
func call(name string, args []cty.Value) (cty.Value, error) {
	switch name {
	case "format":
		return stdlib.Format(args[0], args[1:]...) // checkFormat bounds widths
	case "jsonencode":
		return stdlib.JSONEncode(args[0])
	case "substr":
		return substr(args)
	case "join":
		return join(args)
	}
	var text [3]string
	for i, a := range args {
		s, err := asText(a)
		if err != nil {
			return cty.NilVal, err
		}
		text[i] = s
	}
	switch name {
	case "lower":
		return cty.StringVal(strings.ToLower(text[0])), nil
	case "upper":
		return cty.StringVal(strings.ToUpper(text[0])), nil
	case "trim":
		return cty.StringVal(strings.Trim(text[0], text[1])), nil
	case "urlencode":
		return cty.StringVal(url.QueryEscape(text[0])), nil
	case "replace":
		if n := strings.Count(text[0], text[1])*len(text[2]) + len(text[0]); n > maxValue {
			return cty.NilVal, fmt.Errorf("text of more than %d bytes", maxValue)
		}
		return cty.StringVal(strings.ReplaceAll(text[0], text[1], text[2])), nil
	}
	return cty.NilVal, errors.New("there is no such function") // parseExpression refuses it
}

func substr(args []cty.Value) (cty.Value, error) {
	s, err := asText(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	if args[1].Type() != cty.Number || args[2].Type() != cty.Number || args[1].IsNull() || args[2].IsNull() {
		return cty.NilVal, errors.New("offset and length are numbers")
	}
	return stdlib.Substr(cty.StringVal(s), args[1], args[2])
}

func join(args []cty.Value) (cty.Value, error) {
	between, err := asText(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	list := args[1]
	if list.IsNull() || !list.Type().IsTupleType() && !list.Type().IsListType() && !list.Type().IsSetType() {
		return cty.NilVal, errors.New("what is joined is a list")
	}
	var b strings.Builder
	for i, element := range list.AsValueSlice() {
		text, err := asText(element)
		if err != nil {
			return cty.NilVal, err
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(text)
		if b.Len() > maxValue {
			return cty.NilVal, fmt.Errorf("text of more than %d bytes", maxValue)
		}
	}
	return cty.StringVal(b.String()), nil
}
