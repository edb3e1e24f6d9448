// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const head = `# Kinds of Kubernetes

The fields of each kind of the group okara.dev, generated from the CRDs in charts/okara/crds.
A field with ! is required. What every object has (apiVersion, kind, metadata) is omitted.
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER")
		os.Exit(2)
	}
	page, err := renderPage(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(page)
}

// renderPage returns the page about the CRDs in a folder.
func renderPage(dir string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New(dir + " has no CRD")
	}
	var b strings.Builder
	b.WriteString(head)
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(src, &crd); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		writeKind(&b, &crd)
	}
	return b.String(), nil
}

func writeKind(b *strings.Builder, crd *apiextensions.CustomResourceDefinition) {
	v := crd.Spec.Versions[0]
	top := v.Schema.OpenAPIV3Schema
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n`%s`, %s, short name `%s`.\n\n| field | type | meaning |\n|---|---|---|\n",
		crd.Spec.Names.Kind, escapeCell(top.Description), crd.Spec.Group+"/"+v.Name, strings.ToLower(string(crd.Spec.Scope)), strings.Join(crd.Spec.Names.ShortNames, "`, `"))
	for _, part := range []string{"spec", "status"} {
		writeFields(b, part, top.Properties[part])
	}
}

// writeFields writes a row for each field below the given path.
func writeFields(b *strings.Builder, path string, s apiextensions.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		mark := ""
		if slices.Contains(s.Required, name) {
			mark = "!"
		}
		at := path + "." + name
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", at, mark, typeOf(field), describeMeaning(field))
		if field.Items != nil && field.Items.Schema != nil {
			at = at + "[]"
			field = *field.Items.Schema
		}
		if name != "conditions" {
			writeFields(b, at, field)
		}
	}
}

func typeOf(s apiextensions.JSONSchemaProps) string {
	if s.Items != nil && s.Items.Schema != nil {
		return "list of " + typeOf(*s.Items.Schema)
	}
	return s.Type
}

// describeMeaning returns the description, the allowed values and the default.
func describeMeaning(s apiextensions.JSONSchemaProps) string {
	text := escapeCell(s.Description)
	var values []string
	for _, v := range s.Enum {
		values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
	}
	if len(values) > 0 {
		text += " One of " + strings.Join(values, ", ") + "."
	}
	if s.Default != nil {
		text += " Default `" + strings.Trim(string(s.Default.Raw), `"`) + "`."
	}
	return text
}

// escapeCell escapes text for one cell of a Markdown table.
func escapeCell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(strings.TrimSpace(s))
}
