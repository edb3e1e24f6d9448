// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// scope has, in every value, a text that would do harm if it were not treated as text.
func scope(evil string) template.Scope {
	raw, _ := json.Marshal(evil)
	return template.Scope{
		ID: "k7m2p9x4tq", Owner: template.Owner{Kind: "user", ID: evil, Label: evil},
		Parameters: map[string]json.RawMessage{"p": raw}, Claims: map[string]string{"c": evil},
		Config: map[string]string{"domain": "example.com", "scheme": "https"}, Outputs: map[string]json.RawMessage{"o": raw},
	}
}

const echo = `
parameter "p" {
}
inputs = {
  label  = owner.label
  joined = "<${owner.id}>"
  claim  = upper(claims.c)
  list   = [parameters.p, { k = lower(parameters.p) }]
}
`

// TestLiteral renders values that would be code if they were pasted into text.
//
// Shows: platform 7 | values by expression, and what they can access | `inputs`
// Shows: platform-mistakes 5 | values pasted into text; functions that read secrets
func TestLiteral(t *testing.T) {
	tmpl := open(t, echo)
	for _, evil := range []string{
		`"`, `'`, "a\nb", "a\r\nb: c", "${file(\"/etc/passwd\")}", "%{for x in y}", "$${x}", "\\\"", "}", "<<EOT\nx\nEOT", "\u2028", "\x00", "{{.}}", "$(id)", "`id`", "</script>",
	} {
		got, err := template.Render(tmpl, scope(evil))
		if err != nil {
			t.Fatalf("%q: %v", evil, err)
		}
		want := map[string]any{
			"p": evil, "label": evil, "joined": "<" + evil + ">", "claim": strings.ToUpper(evil), "list": []any{evil, map[string]any{"k": strings.ToLower(evil)}},
		}
		decoded := map[string]any{}
		for name, raw := range got {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatalf("%q: %v", evil, err)
			}
			decoded[name] = v
		}
		if diff := cmp.Diff(want, decoded); diff != "" {
			t.Errorf("%q: %s", evil, diff)
		}
	}
}

// TestFunctions computes with each function.
//
// Shows: platform 7
// Shows: platform-mistakes 5
func TestFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		`lower("AbC")`: `"abc"`, `upper("AbC")`: `"ABC"`, `replace("a.b.c", ".", "-")`: `"a-b-c"`, `replace("aa", "/a/", "b")`: `"aa"`,
		`format("%s-%03d-%v%%", id, 7, true)`: `"k7m2p9x4tq-007-true%"`, `join("-", ["a", 1, true])`: `"a-1-true"`, `trim("--a-", "-")`: `"a"`, `substr("hello", 1, 3)`: `"ell"`,
		`jsonencode({ a = [1, "b"] })`: `"{\"a\":[1,\"b\"]}"`, `urlencode("a b/ü")`: `"a+b%2F%C3%BC"`, `format("%d%s", 1, "x")`: `"1x"`, `join("-", [lower("A"), parameters.p])`: `"a-x"`, `[parameters.p == "y" ? claims.gone : 1]`: "[1]",
		`1 + 2 * 3`: "7", `!true`: "false", `-(1)`: "-1", `parameters.p == "x" ? [1] : "no"`: "[1]", `template`: `"a/b"`, `owner.kind`: `"user"`, `claims.c`: `"x"`, `config.domain`: `"example.com"`, `config["domain"]`: `"example.com"`,
	} {
		got, err := template.Render(open(t, "parameter \"p\" {\n}\ninputs = {\n x = "+expression+"\n}"), scope("x"))
		if err != nil || string(got["x"]) != want {
			t.Errorf("%s: got %s, %v, want %s", expression, got["x"], err, want)
		}
	}
}

// TestGrowth refuses results beyond a gigabyte.
func TestGrowth(t *testing.T) {
	big := strings.Repeat("x", 8000)
	p := func(n int) string { return strings.Repeat("${parameters.p}", n) }
	for name, expression := range map[string]string{
		"parts":              `"` + p(200) + `"`,
		"replace":            `replace("` + p(8) + `", "x", parameters.p)`,
		"replace of nothing": `replace("` + p(8) + `", "", parameters.p)`,
		"replace twice":      `replace(replace("` + p(8) + `", "x", "xxxxxxxx"), "x", parameters.p)`,
		"join":               `join(parameters.p, [` + strings.Repeat(`"",`, 1000) + `])`,
		"list":               `[` + strings.Repeat("parameters.p,", 200) + `]`,
		"object":             `jsonencode({ a = [` + strings.Repeat("parameters.p,", 50) + `], b = [` + strings.Repeat("parameters.p,", 50) + `] })`,
		"format":             `format("` + strings.Repeat("%s", 31) + `"` + strings.Repeat(", parameters.p", 31) + `)`,
		"numbers":            `"${1e300` + strings.Repeat("*1e300", 90) + `}"`,
		"result":             `parameters.p`,
		"quotes":             strings.Repeat("jsonencode(", 40) + `"\""` + strings.Repeat(")", 40),
		"encoded twice":      `urlencode(urlencode(urlencode("` + p(7) + `")))`,
	} {
		got, err := template.Render(open(t, "parameter \"p\" {\n}\ninputs = {\n x = "+expression+"\n}"), scope(big))
		if err == nil || !strings.HasPrefix(err.Error(), "template a/b: inputs.x: ") {
			t.Errorf("%s: got %d bytes, %v", name, len(got["x"]), err)
		}
	}
}

// Shows: platform 7
func TestRenderErrors(t *testing.T) {
	for expression, want := range map[string]string{
		`"a${parameters.n}"`:               "parameters.n: The expression result is null",
		`"a${parameters.l}"`:               "parameters.l: Cannot include the given value in a string template",
		`parameters.n ? 1 : 2`:             "neither true nor false",
		`substr("a", parameters.l, 1)`:     "number required",
		`join(",", "a")`:                   "list of string required",
		`parameters.l.x`:                   "parameters.l",
		`config.gone`:                      "config.gone",
		`1 + parameters.l`:                 "number",
		`1 / 0`:                            "infinity",
		`claims.gone`:                      "claims.gone",
		`format("%d", "x")`:                `"format" failed`,
		`"${jsonencode(parameters.gone)}"`: "parameters.gone",
	} {
		s := scope("x")
		s.Parameters = map[string]json.RawMessage{"n": json.RawMessage("null"), "l": json.RawMessage("[1]")}
		_, err := template.Render(open(t, "parameter \"n\" {\n}\nparameter \"l\" {\n}\nparameter \"gone\" {\n}\ninputs = {\n x = "+expression+"\n}"), s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", expression, err, want)
		}
	}
	s := scope("x")
	s.Parameters = map[string]json.RawMessage{"n": json.RawMessage("1e999999999")}
	if _, err := template.Render(open(t, "parameter \"n\" {\n}\ninputs = { x = parameters.n }"), s); err == nil {
		t.Error("a number of a gigabyte was computed with")
	}
}

func connection(t *testing.T, body string, s template.Scope) (*template.Connection, error) {
	t.Helper()
	return template.RenderConnection(open(t, "parameter \"p\" {\n}\noutputs = [\"o\", \"url\"]\nconnection {\n"+body+"\n}"), s)
}

// Shows: platform 8 | a link or instructions; which of several takes precedence | `connection` of
// the template, of the server; outputs
func TestConnection(t *testing.T) {
	got := must.Get(connection(t, "url = \"https://${id}.${config.domain}/u/${owner.label}?q=${parameters.p}&r=${urlencode(claims.c)}#${upper(owner.id)}\"\nmessage = \"ssh ${owner.label}@${outputs.o}\"", scope("a b/../?#&%\u001b[2J\"<ü")))(t)
	const encoded = "a%20b%2F..%2F%3F%23%26%25%1B%5B2J%22%3C%C3%BC"
	want := &template.Connection{
		Type:    "web",
		URL:     "https://k7m2p9x4tq.example.com/u/" + encoded + "?q=" + encoded + "&r=" + strings.ReplaceAll(encoded, "%20", "+") + "#" + strings.ReplaceAll(encoded, "a", "A")[:1] + "%20B%2F..%2F%3F%23%26%25%1B%5B2J%22%3C%C3%9C",
		Message: "ssh a b/../?#&%\ufffd[2J\"<ü@a b/../?#&%\ufffd[2J\"<ü",
	}
	must.Match(t, "value", got, want)
	if got, err := connection(t, `url = outputs.o`, scope("https://a.example/x?y")); err != nil || got.URL != "https://a.example/x?y" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := connection(t, `url = "${config.scheme}://a:${outputs.o}/${owner.label}"`, scope("8443")); err != nil || got.URL != "https://a:8443/8443" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestConnectionOfOutput: the template's connection takes precedence over the output url.
//
// Shows: platform 8
func TestConnectionOfOutput(t *testing.T) {
	s := scope("x")
	s.Outputs["url"] = json.RawMessage(`"https://a.example/"`)
	listed, unlisted := open(t, `outputs = ["url"]`), open(t, "")
	if got, err := template.RenderConnection(listed, s); err != nil || got == nil || *got != (template.Connection{Type: "web", URL: "https://a.example/"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := template.RenderConnection(unlisted, s); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := connection(t, `message = "m"`, s); err != nil || got.URL != "" || got.Type != "instructions" {
		t.Errorf("got %v, %v", got, err)
	}
	s.Outputs["url"] = json.RawMessage(`5`)
	if got, err := template.RenderConnection(listed, s); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestConnectionRefuses renders outputs that would make a dangerous link.
func TestConnectionRefuses(t *testing.T) {
	for _, evil := range []string{
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "ftp://a.example/", "//a.example/", "/x", "a.example", "", "https:", "https:///x", "https:a.example",
		"https://u@a.example/", "https://u:p@a.example/", "https://a.example/\r\nX: y", "https://a.example/\x00", "https://a.example\\@b.example/", "https://a example/", "https://a.example/\u202e", " https://a.example/",
		"https://a.example:port/", "https://" + strings.Repeat("a", 5000) + "/", "https://%zz/", "https://?x", "https://#x",
	} {
		if got, err := connection(t, `url = outputs.o`, scope(evil)); err == nil {
			t.Errorf("%q: got %+v", evil, got)
		}
	}
	// A user's value becomes the host only if an output leaves the host open.
	for _, evil := range []string{"https:", "https:/", "https://", "//", "https://a.example?//"} {
		got, err := connection(t, `url = "${outputs.o}//${owner.label}"`, template.Scope{
			Owner: template.Owner{Label: "evil.example"}, Outputs: map[string]json.RawMessage{"o": json.RawMessage(`"` + evil + `"`)},
		})
		if err == nil && !strings.HasPrefix(got.URL, "https://a.example") {
			t.Errorf("%q: got %s", evil, got.URL)
		}
	}
}

// FuzzURL: users' values never change the host.
func FuzzURL(f *testing.F) {
	f.Add("a", "b")
	f.Add("@evil.example/", "\\")
	list, err := template.Parse([]byte("template \"a/b\" {\n module {\n address = \"a/b/c\"\n }\n parameter \"p\" {\n }\n connection {\n url = \"https://${id}.${config.domain}/${owner.label}?x=${parameters.p}\"\n }\n}\n"), "a.hcl", template.Known{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, label, parameter string) {
		s := scope(label)
		s.Parameters["p"], _ = json.Marshal(parameter)
		got, err := template.RenderConnection(list[0], s)
		if err != nil {
			return // it is too long
		}
		if !strings.HasPrefix(got.URL, "https://k7m2p9x4tq.example.com/") || strings.ContainsAny(got.URL[len("https://"):], "@\\ \r\n\x00<>\"'") {
			t.Errorf("%q, %q: %s", label, parameter, got.URL)
		}
	})
}
