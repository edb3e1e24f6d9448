// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	launch "github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
)

// TestServeReference holds the page to settings and flags.
func TestServeReference(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/reference/serve-reference.md"))(t)
	section, _, _ := strings.Cut(string(page), "## Rights")
	var documented, flags []string
	for line := range strings.Lines(section) {
		if cell := strings.Split(line, "|"); len(cell) > 3 {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell[1], -1) {
				documented = append(documented, m[1])
			}
			for _, m := range regexp.MustCompile("`--([^`]+)`").FindAllStringSubmatch(cell[2], -1) {
				flags = append(flags, m[1])
			}
		}
	}
	want := append(settings(reflect.TypeFor[server.Settings](), ""), settings(reflect.TypeFor[launch.Block](), "")...)
	slices.Sort(want)
	slices.Sort(documented)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("settings of docs/reference/serve-reference.md (-code +page):\n%s", diff)
	}
	known := []string{"registry"} // a global flag that the file also has
	newServe(&upstreams{reg: &cli.Registries{App: &cli.App{}}}).Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	slices.Sort(known)
	slices.Sort(flags)
	if diff := cmp.Diff(known, flags); diff != "" {
		t.Errorf("flags of docs/reference/serve-reference.md (-code +page):\n%s", diff)
	}
}

// settings returns a body's attributes and labelled blocks.
func settings(body reflect.Type, prefix string) []string {
	var names []string
	for field := range body.Fields() {
		tag, ok := field.Tag.Lookup("hcl")
		if !ok {
			if field.Type.Kind() == reflect.Struct { // a separate part, or not in the file
				names = append(names, settings(field.Type, prefix)...)
			}
			continue
		}
		name, kind, _ := strings.Cut(tag, ",")
		switch kind {
		case "", "optional":
			names = append(names, prefix+name)
		case "label":
			names = append(names, strings.TrimSuffix(prefix, ".")+" LABEL")
		case "block":
			names = append(names, settings(field.Type.Elem(), prefix+name+".")...)
		}
	}
	return names
}
