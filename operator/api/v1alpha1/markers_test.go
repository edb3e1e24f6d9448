// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

// marker finds what a comment says of the values of a field or type.
var marker = regexp.MustCompile(`(?m)^\+kubebuilder:(validation:Enum|default)=(.*)$`)

// TestMarkers compares each enumeration and default that the Go types declare with the
// schemas in the chart: of a field whose type has an enumeration too, the generator keeps
// the type's.
func TestMarkers(t *testing.T) {
	m := markers{t: t, types: map[string]*ast.TypeSpec{}, docs: map[string]string{}}
	names := must.Get(filepath.Glob("*.go"))(t)
	for _, name := range names {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			for i := 0; ok && g.Tok == token.TYPE && i < len(g.Specs); i++ {
				s := g.Specs[i].(*ast.TypeSpec)
				m.types[s.Name.Name], m.docs[s.Name.Name] = s, commentText(g.Doc)+commentText(s.Doc)
			}
		}
	}
	crds := must.Get(filepath.Glob("../../../charts/okara/crds/*.yaml"))(t)
	for _, name := range crds {
		text := must.Get(os.ReadFile(name))(t)
		var crd apiextensions.CustomResourceDefinition
		must.Succeed(t, yaml.UnmarshalStrict(text, &crd))
		m.compareStruct(crd.Spec.Names.Kind, crd.Spec.Names.Kind, *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	phases := m.docs["InstancePhase"]
	for _, p := range lifecycle.Phases() {
		if name := text.Camel(string(p)); !regexp.MustCompile(`[=;]` + name + `\b`).MatchString(phases) {
			t.Errorf("InstancePhase has no %s", name)
		}
	}
	if m.compared < 50 {
		t.Errorf("%d enumerations and defaults found", m.compared)
	}
}

func commentText(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	var lines []string
	for _, c := range doc.List {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
	}
	return strings.Join(lines, "\n") + "\n"
}

type markers struct {
	t        *testing.T
	types    map[string]*ast.TypeSpec
	docs     map[string]string
	compared int
}

// compareStruct compares the fields of a type with the properties of a schema.
func (m *markers) compareStruct(at, name string, schema apiextensions.JSONSchemaProps) {
	s, ok := m.types[name].Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		typeName := namedType(field.Type)
		key := ""
		if field.Tag != nil {
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
			key, _, _ = strings.Cut(tag, ",")
		}
		if key == "" { // embedded
			if m.types[typeName] != nil {
				m.compareStruct(at, typeName, schema)
			}
			continue
		}
		property, ok := schema.Properties[key]
		if !ok {
			m.t.Errorf("%s.%s is not in the schema", at, key)
			continue
		}
		m.compareField(at+"."+key, commentText(field.Doc), m.docs[typeName], property)
		for property.Items != nil || property.AdditionalProperties != nil {
			if property.Items != nil {
				property = *property.Items.Schema
			} else {
				property = *property.AdditionalProperties.Schema
			}
		}
		if m.types[typeName] != nil && typeName != name {
			m.compareStruct(at+"."+key, typeName, property)
		}
	}
}

// compareField compares one field: its own markers count, then those of its type.
func (m *markers) compareField(at, doc, typeDoc string, property apiextensions.JSONSchemaProps) {
	want := map[string]string{}
	for _, text := range []string{typeDoc, doc} {
		for _, found := range marker.FindAllStringSubmatch(text, -1) {
			want[found[1]] = found[2]
		}
	}
	if values, ok := want["validation:Enum"]; ok {
		for property.Items != nil {
			property.Enum = property.Items.Schema.Enum
			property.Items = property.Items.Schema.Items
		}
		var enum []string
		for _, v := range property.Enum {
			enum = append(enum, strings.Trim(string(v.Raw), `"`))
		}
		intent := strings.Split(strings.ReplaceAll(values, `"`, ""), ";")
		slices.Sort(enum)
		slices.Sort(intent)
		m.compared++
		if !slices.Equal(enum, intent) {
			m.t.Errorf("%s: the schema takes %v, its marker says %v", at, enum, intent)
		}
	}
	if value, ok := want["default"]; ok {
		m.compared++
		intent, err := yaml.YAMLToJSON([]byte(value))
		if err != nil || property.Default == nil || string(property.Default.Raw) != strings.TrimSpace(string(intent)) {
			m.t.Errorf("%s: the schema's default is %v, its marker says %s (%v)", at, property.Default, value, err)
		}
	}
}

// namedType returns the name of the type behind pointers, slices and maps.
func namedType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return namedType(e.X)
	case *ast.ArrayType:
		return namedType(e.Elt)
	case *ast.MapType:
		return namedType(e.Value)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
