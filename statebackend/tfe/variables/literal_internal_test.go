// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"encoding/json"
	"strings"
	"testing"
)

// Shows: cloud 29
func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: `"a"`, `"$${a}"`: `"${a}"`, `-1.5`: `-1.5`, `12345678901234567890`: `12345678901234567890`, `null`: `null`, `true`: `true`,
		`[]`: `[]`, `{}`: `{}`, `{ a = 1, "b c" = [null] }`: `{"a":1,"b c":[null]}`, `("a")`: `"a"`,
	} {
		if got, err := parseLiteral(text); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		``, `a`, `var.a`, `upper("a")`, `"${a}"`, `"${1}"`, `1 + 1`, `true ? 1 : 2`, `[for x in [1] : x]`, `{ (a) = 1 }`, `{ a.b = 1 }`, `-a`, `!true`,
		`1 2`, "\"a\nb\"", "\xff", strings.Repeat("[", 100) + strings.Repeat("]", 100), `[1][0]`, `file("/etc/passwd")`,
	} {
		if got, err := parseLiteral(text); err == nil {
			t.Errorf("%.60s is %s", text, got)
		} else if len(text) > 2 && strings.Contains(err.Error(), text) {
			t.Errorf("the value is in %v", err)
		}
	}
}

func TestVariableBounds(t *testing.T) {
	for name, list := range map[string][]Requested{
		"twice": {{"a", "1"}, {"a", "2"}}, "no name": {{"", "1"}}, "option": {{"-a", "1"}}, "large": {{"a", `"` + strings.Repeat("x", maxVariableBytes) + `"`}},
		"many": make([]Requested, maxVariables+1),
	} {
		if got, err := Parse(list); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzVariable converts text to JSON, or refuses it.
func FuzzVariable(f *testing.F) {
	for _, text := range []string{`"a"`, `{ a = [1, null] }`, "<<A\nx\nA\n", `"x\n}"`, `[for x in y : x]`, `"${"${a}"}"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseLiteral(text); err == nil && !json.Valid(got) {
			t.Errorf("%q is %s", text, got)
		}
	})
}
