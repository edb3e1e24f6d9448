// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	gocmp "cmp"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// sheet is a page type, or one form of it.
type sheet struct {
	body any       // the type of what it shows
	set  func(any) // makes a body, given as pointer, that of this form; nil: there is one
	part string    // that other pages show, instead of a page; "": it is one
}

// sheets are all page types by template, and by what follows a dash the form.
func sheets() map[string]sheet {
	all := map[string]sheet{
		"admin_templates": {adminTemplatesBody{}, nil, ""}, "approvals": {approvalsBody{}, nil, ""}, "audit": {auditBody{}, nil, ""}, "compare": {compareBody{}, nil, ""},
		"depot": {depotBody{}, nil, ""}, "doctor": {doctorBody{}, nil, ""}, "downloads": {downloadsBody{}, nil, ""}, "error": {errorBody{}, nil, ""}, "first": {firstBody{}, nil, ""},
		"home": {homeBody{}, nil, ""}, "kind": {kindBody{}, nil, ""}, "instance": {instanceBody{}, nil, ""}, "instance_reveal": {revealBody{}, nil, ""}, "instance_run": {runBody{}, nil, ""},
		"instance_verb": {verbBody{}, nil, ""}, "instances": {instancesBody{}, nil, ""}, "login": {loginBody{}, nil, ""}, "login-token": {loginBody{}, func(b any) { b.(*loginBody).Issuer = "" }, ""},
		"me": {meBody{}, nil, ""}, "namespace": {listBody{}, nil, ""}, "search": {listBody{}, nil, ""},
		"run": {launchBody{}, everyKind, ""}, "run-closed": {launchBody{}, nil, ""},
		"state": {statesBody{}, nil, ""}, "state_diff": {diffBody{}, nil, ""}, "state_history": {historyBody{}, nil, ""}, "state_resources": {resourcesBody{}, nil, ""},
		"state_reveal": {stateRevealBody{}, nil, ""}, "state_version": {versionBody{}, nil, ""}, "states": {statesBody{}, nil, ""},
		"submodule": {submoduleBody{}, nil, ""}, "template": {templateBody{}, nil, ""}, "templates": {templatesBody{}, nil, ""}, "versions": {versionsBody{}, nil, ""},
	}
	for _, tab := range []string{"readme", "inputs", "outputs", "resources", "dependencies", "usage", "security", "files"} {
		all["module-"+tab] = sheet{moduleBody{}, func(b any) {
			m := b.(*moduleBody)
			if m.Tab = tab; len(m.Snippets) == 0 {
				m.Snippets = []snippet{{}} // it has one always
			}
		}, ""}
	}
	for _, tab := range []string{"platforms", "keys", "docs", "usage", "security"} {
		all["provider-"+tab] = sheet{providerBody{}, func(b any) { b.(*providerBody).Tab = tab }, ""}
	}
	all["instances-own"] = sheet{body: ownBody{}, part: "own"}
	return all
}

// everyKind makes a form one with a field of each kind.
func everyKind(b any) {
	l := b.(*launchBody)
	l.Closed = ""
	if len(l.Asks) > 0 {
		one := l.Asks[0]
		l.Asks = nil
		for _, one.Kind = range []string{kindText, kindNumber, kindSecret, kindCheck, kindChoose, kindArea, kindJSON} {
			l.Asks = append(l.Asks, one)
		}
	}
}

// Texts that are hard to show: they end a string, an attribute, a script and an address,
// turn the direction of writing, and are long. Plain is as long and means nothing.
var (
	evilText  = "javascript:alert(1)//\"'></script><script>alert(1)</script>\u202e\u2066&amp;<b onclick=x>" + longWord
	plainText = strings.Repeat("x", len(evilText)-len(longWord)) + longWord
	longWord  = strings.Repeat("long", 10<<10/4)
)

// fill sets everything that a template can show: texts to what text says of a field,
// numbers to 3, lists to so many. What is trusted stays what it is.
func fill(v reflect.Value, name string, text func(string) string, most, deep int) {
	if deep > 9 || !v.CanSet() && v.Kind() != reflect.Struct {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)))
		return
	case reflect.TypeFor[template.HTML]():
		v.SetString("<p>Of a sanitizer.</p>")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, text, most, deep+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), most, most))
		for i := range most {
			fill(v.Index(i), name, text, most, deep+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				fill(v.Field(i), f.Name, text, most, deep+1)
			}
		}
	}
}

// render is the content of a page type with a body that is filled so; nil: it is empty.
func (s sheet) render(t *testing.T, file *template.Template, text func(string) string, most int) string {
	t.Helper()
	body := reflect.New(reflect.TypeOf(s.body))
	if text == nil {
		text = func(string) string { return "" }
	} else {
		fill(body.Elem(), "Body", text, most, 0)
	}
	if s.set != nil {
		s.set(body.Interface())
	}
	var of any = &page{Title: text("Title"), Key: text("Key"), Up: "./../", Body: body.Elem().Interface()}
	if s.part != "" {
		of = under{"./../", body.Elem().Interface()}
	}
	var b bytes.Buffer
	if err := file.ExecuteTemplate(&b, gocmp.Or(s.part, "content"), of); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shape is the elements of a page with the names of their attributes, in order, and
// fails the test for one that acts.
func shape(t *testing.T, text string) []string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "wbr" { // where a long word may break
			continue
		}
		var names strings.Builder
		names.WriteString(n.Data)
		for _, a := range n.Attr {
			names.WriteString(" " + a.Key)
			if at := strings.ToLower(strings.TrimSpace(a.Val)); (a.Key == "href" || a.Key == "src" || a.Key == "action") && strings.HasPrefix(at, "javascript:") || strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s acts by %s=%.60q", n.Data, a.Key, a.Val)
			}
		}
		if n.Data == "script" || n.Data == "style" {
			t.Errorf("an element %s", n.Data)
		}
		all = append(all, names.String())
	}
	return all
}

// TestGolden renders each page type full, empty, and with data that wants to get out of
// the page, and compares it with testdata/golden, which is written anew with
// OKARA_UPDATE=1. What is hostile makes no other elements than what is not.
func TestGolden(t *testing.T) {
	files, err := readTemplates([]set{{Templates: templateFiles}, {Templates: below(catalogFiles, "catalogpages")}, {Templates: below(stateFiles, "statepages")}, {Templates: below(instanceFiles, "instancepages")}})
	if err != nil {
		t.Fatal(err)
	}
	all := sheets()
	for file, one := range files {
		name := strings.TrimSuffix(file, ".html")
		part := file == "layout.html"
		has := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(key string) bool { base, _, _ := strings.Cut(key, "-"); return base == name })
		if one.Lookup("content") != nil && !part && !has {
			t.Errorf("no golden page of %s", file)
		}
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			base, _, _ := strings.Cut(name, "-")
			file := files[base+".html"]
			full := s.render(t, file, func(field string) string { return "a " + field }, 2)
			evil := s.render(t, file, func(string) string { return evilText }, 1)
			plain := s.render(t, file, func(string) string { return plainText }, 1)
			if diff := cmp.Diff(shape(t, plain), shape(t, evil)); diff != "" {
				t.Errorf("what is hostile gets out of its place: %s", diff)
			}
			shape(t, full)
			got := fmt.Sprintf("<!-- empty -->\n%s\n<!-- full -->\n%s\n<!-- hostile -->\n%s\n", s.render(t, file, nil, 0), full, strings.ReplaceAll(evil, longWord, "[long]"))
			got = strings.NewReplacer("\u202e", "[U+202E]", "\u2066", "[U+2066]").Replace(got)
			compareGolden(t, filepath.Join("testdata", "golden", name+".html"), got)
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("OKARA_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is another (OKARA_UPDATE=1 writes it): %s", file, diff)
	}
}

// TestTerraformDocs has the tables that terraform-docs writes into a README, which are
// Markdown and HTML in turn, as they should look.
func TestTerraformDocs(t *testing.T) {
	source, err := os.ReadFile("testdata/terraform-docs.txt")
	if err != nil {
		t.Fatal(err)
	}
	doc := newMarkdown(time.Now, nil).render(string(source), place{})
	checkSafe(t, string(doc.html))
	compareGolden(t, "testdata/golden/terraform-docs.html", string(doc.html))
}
