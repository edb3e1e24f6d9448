// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// arity returns how many arguments a function takes. No function reads files, the
// environment, the clock or the network.
func arity(name string) (minimum, limit int, ok bool) {
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

// call computes a function. Its arguments have at most maxValue bytes together.
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
	return cty.NilVal, errors.New("there is no such function") // parseExpression refuses others
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

// checkCall refuses unknown functions, and formats that could grow without bound.
func checkCall(e *hclsyntax.FunctionCallExpr) error {
	n := len(e.Args)
	minimum, limit, ok := arity(e.Name)
	switch {
	case !ok:
		return fmt.Errorf("there is no function %s; there are lower, upper, replace, format, join, trim, substr, jsonencode and urlencode", e.Name)
	case e.ExpandFinal:
		return fmt.Errorf("%s: write out its arguments instead of …", e.Name)
	case n < minimum || n > limit:
		return fmt.Errorf("%s has %d arguments, not %d", e.Name, minimum, n)
	case e.Name != "format":
		return nil
	}
	text, ok := writtenOut(e.Args[0])
	if !ok {
		return errors.New("format: its first argument is written out, not computed")
	}
	return checkFormat(text, n-1)
}

// writtenOut returns the text of an expression that consists only of literals.
func writtenOut(e hclsyntax.Expression) (string, bool) {
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok {
		return "", false
	}
	var text strings.Builder
	for _, part := range t.Parts {
		l, ok := part.(*hclsyntax.LiteralValueExpr)
		if !ok || l.Val.Type() != cty.String {
			return "", false
		}
		text.WriteString(l.Val.AsString())
	}
	return text.String(), true
}

// formatVerb matches a verb with a width and a precision up to 99. An argument can be
// used only once, so that a format does not multiply its input.
const formatVerb = `^%[-+ 0]*([0-9]{1,2})?(\.[0-9]{1,2})?[sdvqtfegxXob]`

func checkFormat(text string, arguments int) error {
	verb := regexp.MustCompile(formatVerb)
	used := 0
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			break
		}
		text = text[i:]
		if strings.HasPrefix(text, "%%") {
			text = text[2:]
			continue
		}
		found := verb.FindString(text)
		if found == "" {
			return fmt.Errorf("format: %.20q is no verb with a width up to 99", text)
		}
		text = text[len(found):]
		used++
	}
	if used != arguments {
		return fmt.Errorf("format: %d verbs for %d values", used, arguments)
	}
	return nil
}
