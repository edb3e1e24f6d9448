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
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions returns what expressions can call. No function reads files, the environment,
// the clock or the network.
func functions() map[string]function.Function {
	urlencode := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(url.QueryEscape(args[0].AsString())), nil
		},
	})
	repeats := func(args []cty.Value) int {
		return strings.Count(args[0].AsString(), args[1].AsString()) * len(args[2].AsString())
	}
	separators := func(args []cty.Value) int { return valueSize(args[0]) * args[1].LengthInt() }
	return map[string]function.Function{
		"lower": bounded(stdlib.LowerFunc, nil), "upper": bounded(stdlib.UpperFunc, nil), "trim": bounded(stdlib.TrimFunc, nil), "substr": bounded(stdlib.SubstrFunc, nil),
		"format":     bounded(stdlib.FormatFunc, nil), // checkFormat bounds widths
		"jsonencode": bounded(stdlib.JSONEncodeFunc, nil), "urlencode": bounded(urlencode, nil),
		"join": bounded(stdlib.JoinFunc, separators), "replace": bounded(stdlib.ReplaceFunc, repeats),
	}
}

// bounded returns the function with a bound on its arguments together, and on how much
// larger its result is, if that can be more than a few times.
func bounded(f function.Function, grows func(args []cty.Value) int) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			n := 0
			for _, a := range args {
				n += valueSize(a)
			}
			if grows != nil {
				n += grows(args)
			}
			if n > maxValue {
				return cty.NilVal, fmt.Errorf("values of more than %d bytes", maxValue)
			}
			return f.Call(args)
		},
	})
}

// checkCall refuses unknown functions, and formats that could grow without bound.
func checkCall(e *hclsyntax.FunctionCallExpr) error {
	n := len(e.Args)
	f, ok := functions()[e.Name]
	minimum := 0
	if ok {
		minimum = len(f.Params())
	}
	if e.Name == "join" {
		minimum = 2
	}
	switch {
	case !ok:
		return fmt.Errorf("there is no function %s; there are lower, upper, replace, format, join, trim, substr, jsonencode and urlencode", e.Name)
	case e.ExpandFinal:
		return fmt.Errorf("%s: write out its arguments instead of …", e.Name)
	case n < minimum || n > minimum && e.Name != "format":
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
