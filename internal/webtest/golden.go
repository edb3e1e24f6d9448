// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"bytes"
	gocmp "cmp"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/internal/must"
)

// Sheet is a page type, or one variant of it.
type Sheet struct {
	Body any       // a value of the type of the page's body
	Set  func(any) // changes a body, given as a pointer, to this variant; nil: the only variant
	Part string    // name of a template that is part of other pages; "": a page
}

// Shown returns the template's argument for a sheet with a filled body.
type Shown func(s Sheet, title, key string, body any) any

// hardText returns texts that are hard to show: evil closes a string, an attribute, a script and an
// address, reverses the text direction, and ends with a long word; plain is as long and harmless.
func hardText() (evil, plain, long string) {
	long = strings.Repeat("long", 10<<10/4)
	evil = "javascript:alert(1)//\"'></script><script>alert(1)</script>\u202e\u2066&amp;<b onclick=x>"
	return evil + long, strings.Repeat("x", len(evil)) + long, long
}

// fillValue sets every field that a template can show: texts to the result of text for the
// field name, numbers to 3, lists to limit elements. Trusted HTML gets harmless markup.
func fillValue(v reflect.Value, name string, text func(string) string, limit, deep int) {
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
		fillValue(v.Elem(), name, text, limit, deep+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), limit, limit))
		for i := range limit {
			fillValue(v.Index(i), name, text, limit, deep+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				fillValue(v.Field(i), f.Name, text, limit, deep+1)
			}
		}
	}
}

// render returns the content of a page type with a filled body; if text is nil, it is empty.
func (s Sheet) render(t *testing.T, file *template.Template, page Shown, text func(string) string, limit int) string {
	t.Helper()
	body := reflect.New(reflect.TypeOf(s.Body))
	if text == nil {
		text = func(string) string { return "" }
	} else {
		fillValue(body.Elem(), "Body", text, limit, 0)
	}
	if s.Set != nil {
		s.Set(body.Interface())
	}
	var b bytes.Buffer
	must.Succeed(t, file.ExecuteTemplate(&b, gocmp.Or(s.Part, "content"), page(s, text("Title"), text("Key"), body.Elem().Interface())))
	return b.String()
}

func holdsScript(a html.Attribute) bool {
	address := a.Key == "href" || a.Key == "src" || a.Key == "action"
	script := strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.Val)), "javascript:")
	return address && script || strings.HasPrefix(a.Key, "on") || a.Key == "style"
}

// elementShape returns the elements of a page with the names of their attributes, in order. It
// fails the test for an attribute that acts.
func elementShape(t *testing.T, text string) []string {
	t.Helper()
	root := must.Get(html.Parse(strings.NewReader(text)))(t)
	var all []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "wbr" { // a line break opportunity in a long word
			continue
		}
		var names strings.Builder
		names.WriteString(n.Data)
		for _, a := range n.Attr {
			names.WriteString(" " + a.Key)
			if holdsScript(a) {
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

// Golden renders each page type full, empty, and with hostile data that tries to escape
// its place, and compares it with testdata/golden, which OKARA_UPDATE=1 rewrites. Hostile
// data must make no other elements than harmless data. The keys of all are template
// names, with the variant of a page type after a dash. The files below templates must
// have nothing that the content security policy forbids.
func Golden(t *testing.T, files map[string]func() (*template.Template, error), all map[string]Sheet, page Shown) {
	t.Helper()
	checkFiles(t)
	read := map[string]*template.Template{}
	for file, page := range files {
		one := must.Get(page())(t)
		read[file] = one
		name := strings.TrimSuffix(file, ".html")
		has := slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(key string) bool { base, _, _ := strings.Cut(key, "-"); return base == name })
		if one.Lookup("content") != nil && name != "layout" && name != "error" && !has { // those two belong to the frame
			t.Errorf("no golden page of %s", file)
		}
	}
	evilText, plainText, longWord := hardText()
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			base, _, _ := strings.Cut(name, "-")
			file := read[base+".html"]
			full := s.render(t, file, page, func(field string) string { return "a " + field }, 2)
			evil := s.render(t, file, page, func(string) string { return evilText }, 1)
			plain := s.render(t, file, page, func(string) string { return plainText }, 1)
			if diff := cmp.Diff(elementShape(t, plain), elementShape(t, evil)); diff != "" {
				t.Errorf("what is hostile gets out of its place: %s", diff)
			}
			elementShape(t, full)
			got := fmt.Sprintf("<!-- empty -->\n%s\n<!-- full -->\n%s\n<!-- hostile -->\n%s\n", s.render(t, file, page, nil, 0), full, strings.ReplaceAll(evil, longWord, "[long]"))
			got = strings.NewReplacer("\u202e", "[U+202E]", "\u2066", "[U+2066]").Replace(got)
			Compare(t, filepath.Join("testdata", "golden", name+".html"), got)
		})
	}
}

// checkFiles looks for styles, scripts and other hosts in the files below templates.
func checkFiles(t *testing.T) {
	t.Helper()
	bad := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|javascript:|https?://|<style|<script>`)
	names, err := filepath.Glob("templates/*.html")
	if err != nil || len(names) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, name := range names {
		b := must.Get(os.ReadFile(name))(t)
		if found := bad.Find(b); found != nil {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// Compare compares a text with a file, which OKARA_UPDATE=1 rewrites.
func Compare(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o750))
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is another (OKARA_UPDATE=1 writes it): %s", file, diff)
	}
}
