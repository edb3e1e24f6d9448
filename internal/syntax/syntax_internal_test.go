// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestDeepIsRefused has texts that used to crash the process: each is refused
// before it reaches the parsers, with file and line.
//
// Shows: mistakes 2 | nested HCL or JSON crashed the process, and a job with such content crashed
// it at every start | all input goes through one parser that limits depth and tokens first; a job
// counts its attempts before they run and is parked after three
func TestDeepIsRefused(t *testing.T) {
	r := func(s string) string { return strings.Repeat(s, 20_000) }
	tests := []struct{ name, file, text string }{
		{"brackets", "a.tf", "x = " + r("[")},
		{"parentheses", "a.tf", "x = " + r("(")},
		{"objects", "a.tf", "x = " + r("{a=")},
		{"objects in lines", "a.tf", "x = " + r("{\na=")},
		{"blocks", "a.tf", r("a {\n")},
		{"blocks in one line", "a.tf", r("a { ")},
		{"calls", "a.tf", "x = " + r("f(")},
		{"not", "a.tf", "x = " + r("!")},
		{"minus", "a.tf", "x = " + r("-")},
		{"templates", "a.tf", "x = " + r(`"${`)},
		{"directives", "a.tf", `x = "` + r(`%{if true}`)},
		{"loops in templates", "a.tf", `x = "` + r(`%{for a in b}`)},
		{"heredoc", "a.tf", "x = <<A\n" + r(`%{if true}`)},
		{"heredocs", "a.tf", "x = " + r("<<A\n${")},
		{"conditionals", "a.tf", "x = " + r("a ? b : ")},
		{"conditionals to the left", "a.tf", "x = " + r("a ? ")},
		{"sum", "a.tf", "x = 1" + r("+1")},
		{"sum in lines", "a.tf", "x = (1" + r("+\n1")},
		{"sum in the lines of a loop", "a.tf", "x = {\nfor a in b : a => 1" + r("+\n1")},
		{"and", "a.tf", "x = a" + r("&&a")},
		{"indices", "a.tf", "x = a" + r("[b]")},
		{"splats", "a.tf", "x = a" + r("[*]")},
		{"attribute splats", "a.tf", "x = a" + r(".*")},
		{"loops", "a.tf", "x = " + r("[for a in ")},
		{"loops in values", "a.tf", "x = " + r("[for a in b : ")},
		{"brackets that close nothing", "a.tf", "x = " + r("[)")},
		{"JSON lists", "a.tf.json", r("[") + r("]")},
		{"JSON objects", "a.tf.json", r(`{"a":`) + "1" + r("}")},
		{"JSON template", "a.tf.json", `{"x": "` + r("${[") + `"}`},
		{"JSON template in a name", "a.tf.json", `{"` + r("${(") + `": 1}`},
		{"JSON behind a joining character", "a.tf.json", "{\"x\": [\"\u0600\", \"," + r("[") + "\"]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file, diags := Parse([]byte(tt.text), tt.file)
			if tt.name == "JSON behind a joining character" {
				if diags.HasErrors() {
					t.Errorf("text in a string: %v", diags)
				}
				return
			}
			if file != nil && !diags.HasErrors() || !strings.HasPrefix(diags.Error(), tt.file+":") {
				t.Errorf("got %v", diags)
			}
			if _, err := checkSource([]byte(tt.text), tt.file); !errors.Is(err, ErrTooComplex) && !strings.Contains(err.Error(), "exceeded max depth") {
				t.Errorf("got %v, want ErrTooComplex", err)
			}
		})
	}
	if _, diags := ParseExpression(r("list("), "type"); !diags.HasErrors() {
		t.Error("a deep type was parsed")
	}
}

func TestShallow(t *testing.T) {
	for _, unit := range []string{"[", "(", "{a=", "a {\n", "!", "-", `"${`, `%{if true}`, "<<A\n${", "a ? ", "+1", "&&a", "==a", "<=a", "[b]", ".*", "[*]", "1", "1e999 ", "1.1e-999 ", "a1e99 "} {
		for n := 1; n < 1200; n += 7 {
			src := []byte(`x = "` + strings.Repeat(unit, n))
			for _, text := range [][]byte{src, src[5:], append([]byte("x = "), src[5:]...)} {
				if isShallow(text) && checkEachToken(text, "a.tf", hclsyntax.LexConfig) != nil {
					t.Errorf("%d times %q is not shallow", n, unit)
				}
			}
		}
	}
}

func TestOtherBounds(t *testing.T) {
	tests := []struct{ name, file, text string }{
		{"tokens", "a.tf", "x = [" + strings.Repeat("1,", maxTokens)},
		{"words", "a.tf", "x = [" + strings.Repeat("a\n", maxTokens)},
		{"JSON tokens", "a.tf.json", "[" + strings.Repeat("1,", maxTokens) + "1]"},
		{"exponent", "a.tf", "x = 1e999999999"},
		{"small exponent", "a.tf", "x = 1e-999999999"},
		{"digits", "a.tf", "x = " + strings.Repeat("1", maxDigits+1)},
		{"JSON exponent", "a.tf.json", `{"x": 1e999999999}`},
		{"exponent in a JSON template", "a.tf.json", `{"x": "${1e999999999}"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := checkSource([]byte(tt.text), tt.file); !errors.Is(err, ErrTooComplex) {
				t.Errorf("got %v, want ErrTooComplex", err)
			}
		})
	}
}

// TestOrdinaryIsParsed checks that ordinary files are within the bounds.
func TestOrdinaryIsParsed(t *testing.T) {
	long := "x = (true" + strings.Repeat(" &&\n  var.a[0].b == \"${var.c}-${var.d}\"", 300) + ")\n"
	many := strings.Repeat("resource \"a\" \"b\" {\n  c = !d && (e ? f : g)\n  h = [for i in j : \"${k}%{ if l }m%{ endif }\"]\n}\n", 5000)
	nested := "x = " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n"
	for _, text := range []string{long, many, nested, "# " + strings.Repeat("[(", 5000) + "\nx = \"" + strings.Repeat("(", 5000) + "\"\n", "x = <<A\n" + strings.Repeat("{[(\n", 5000) + "A\n"} {
		if _, diags := Parse([]byte(text), "a.tf"); diags.HasErrors() {
			t.Errorf("%.30q: %v", text, diags)
		}
	}
	file, diags := Parse([]byte("{\"a\": \"h\u00e9 \U0001f600 \u0600\"}"), "a.tf.json")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	attributes, _ := file.Body.JustAttributes()
	if v, _ := attributes["a"].Expr.Value(nil); v.AsString() != "h\u00e9 \U0001f600 \u0600" {
		t.Errorf("got %q", v.AsString())
	}
}

// TestParseAtTheBound walks and evaluates trees of the maximum depth.
func TestParseAtTheBound(t *testing.T) {
	r := func(s string) string { return strings.Repeat(s, MaxDepth-1) }
	for _, text := range []string{
		strings.Repeat("[", MaxDepth/2) + strings.Repeat("]", MaxDepth/2), r("(") + "1" + r(")"), r("!") + "true", "1" + r("+1"), r("true ? 1 : ") + "1", r("{a=") + "1" + r("}"), "a" + r("[0]"), "[[]]" + strings.Repeat("[*]", MaxDepth/4),
	} {
		e, diags := ParseExpression(text, "a")
		if diags.HasErrors() {
			t.Fatalf("%.20q: %v", text, diags)
		}
		_ = e.Variables()
		_, _ = e.Value(nil)
	}
}

func TestCheckValue(t *testing.T) {
	loops := "[for a in [1,2,3,4,5,6,7,8] : "
	tests := []struct {
		text string
		ok   bool
	}{
		{"[for a in [1, 2] : a * 2]", true},
		{"60 * 60 * 24", true},
		{"{ a = [1, 2], b = \"c\" }", true},
		{strings.Repeat(loops, 12) + "1" + strings.Repeat("]", 12), false},
		{`"` + strings.Repeat("%{for a in [1,2,3,4,5,6,7,8]}", 12) + "x" + strings.Repeat("%{endfor}", 12) + `"`, false},
		{"[for a in [" + strings.Repeat("1,", 5000) + "] : [" + strings.Repeat("1,", 5000) + "]]", false},
		{"1e300" + strings.Repeat("*1e300", 200), false},
	}
	for _, tt := range tests {
		e, diags := ParseExpression(tt.text, "a")
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if err := CheckValue(e); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrTooComplex) {
			t.Errorf("%.60s: got %v", tt.text, err)
		}
	}
}

// FuzzParse compares the computed depth with the tree's.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"x = [1, {a = !b}]", "a {\n b = \"${c}%{if d}e%{else}f%{endif}\"\n}", "x = a ? b : c ? d : -e", "x = a[*].b[0].*.c", "x = <<A\n%{for b in c}${d}%{endfor}\nA\n",
		"x = {for a, b in c : d => e... if f}", "x = f(a, b...)", "x = ((((1+2)*3)-4)%5)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, _ := hclsyntax.LexConfig([]byte(text), "a", hcl.InitialPos)
		n, deepest := nesting{frames: []frame{{lines: true}}}, 0
		for i, token := range tokens {
			n.addToken(token.Type, tokens[i+1:])
			deepest = max(deepest, n.depth)
		}
		if deepest > MaxDepth {
			return
		}
		file, _ := hclsyntax.ParseConfig([]byte(text), "a", hcl.InitialPos)
		w := &walker{}
		hclsyntax.Walk(file.Body.(*hclsyntax.Body), w)
		if w.deepest > 4*deepest+8 {
			t.Errorf("depth %d by tokens, %d in the tree", deepest, w.deepest)
		}
	})
}

type walker struct{ depth, deepest int }

func (w *walker) Enter(hclsyntax.Node) hcl.Diagnostics {
	w.depth++
	w.deepest = max(w.deepest, w.depth)
	return nil
}

func (w *walker) Exit(hclsyntax.Node) hcl.Diagnostics { w.depth--; return nil }

// FuzzJSON parses JSON that passes the check, and evaluates it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, "b", {"c": "${d}"}]}`, "{\"\u0600\": \"\\ud800\"}", `[`, `{"a":1}{"b":2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, diags := Parse([]byte(text), "a.tf.json")
		if file == nil || diags.HasErrors() {
			return
		}
		attributes, _ := file.Body.JustAttributes()
		for _, a := range attributes {
			_, _ = a.Expr.Value(&hcl.EvalContext{})
		}
	})
}
