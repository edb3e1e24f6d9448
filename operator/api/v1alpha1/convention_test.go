// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestConventions checks the CRDs of the chart against the conventions of Kubernetes:
// enum values are in CamelCase, and YAML does not read them as another type; there is one
// spec, and a status with the observed generation; approval always has the same form. No status lists
// anything twice. Columns show what is suspended and why; the category okara has only what tenants may list.
func TestConventions(t *testing.T) {
	files, err := filepath.Glob("../../../charts/okara/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: there are no CRDs", err)
	}
	roles := string(must.Get(os.ReadFile("../../../charts/okara/templates/roles.yaml"))(t))
	for _, file := range files {
		b := must.Get(os.ReadFile(file))(t)
		var crd apiextensions.CustomResourceDefinition
		must.Succeed(t, yaml.UnmarshalStrict(b, &crd))
		c := conventions{t, crd.Spec.Names.Kind}
		top := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		if got := strings.Join(slices.Sorted(maps.Keys(top)), " "); got != "apiVersion kind metadata spec status" {
			t.Errorf("%s has %s at its top", c.kind, got)
		}
		status := top["status"].Properties
		for _, name := range []string{"observedGeneration", "conditions"} {
			if _, ok := status[name]; !ok {
				t.Errorf("%s: its status has no %s", c.kind, name)
			}
		}
		for name, p := range top {
			c.field(name, &p)
		}
		columns := map[string]string{}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			columns[column.Name] = column.JSONPath
		}
		if _, suspends := top["spec"].Properties["suspend"]; (columns["Suspended"] != "") != suspends || columns["Message"] == "" {
			t.Errorf("%s has the columns %v", c.kind, columns)
		}
		if slices.Contains(crd.Spec.Names.Categories, "okara") { // what tenants may list
			for _, role := range []string{"okara-registry-view", "okara-registry-edit"} {
				if _, rules, _ := strings.Cut(roles, "name: "+role+"\n"); !strings.Contains(strings.Split(rules, "---")[0], crd.Spec.Names.Plural) {
					t.Errorf("kubectl get okara fails for %s: it may not list %s", role, crd.Spec.Names.Plural)
				}
			}
		}
	}
}

type conventions struct {
	t    *testing.T
	kind string
}

func (c conventions) field(path string, p *apiextensions.JSONSchemaProps) {
	word := regexp.MustCompile(`^"[A-Z][A-Za-z]*"$`)
	for _, v := range p.Enum {
		var plain any
		if err := yaml.Unmarshal([]byte(strings.Trim(string(v.Raw), `"`)), &plain); err != nil {
			c.t.Error(err)
		}
		if _, text := plain.(string); !text || !word.Match(v.Raw) {
			c.t.Errorf("%s: %s has the value %s, which is not in CamelCase or no text without quotes", c.kind, path, v.Raw)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		child, at := p.Properties[name], path+"."+name
		if name == "spec" {
			c.t.Errorf("%s: %s is a second spec", c.kind, at)
		}
		if mode := child.Properties["mode"]; name == "approval" && len(mode.Enum) == 0 {
			c.t.Errorf("%s: %s has no mode of a list", c.kind, at)
		}
		if at != "status.conditions" { // its values are those of Kubernetes
			c.field(at, &child)
		}
	}
	if p.Items != nil && p.Items.Schema != nil {
		if strings.HasPrefix(path, "status.") && p.XListType == nil {
			c.t.Errorf("%s: %s may list something twice", c.kind, path)
		}
		c.field(path+"[]", p.Items.Schema)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		c.field(path+"{}", p.AdditionalProperties.Schema)
	}
}

// TestConstraintPatterns checks that admission refuses no constraint that the operator reads.
func TestConstraintPatterns(t *testing.T) {
	b := must.Get(os.ReadFile("../../../charts/okara/crds/okara.dev_modules.yaml"))(t)
	var crd apiextensions.CustomResourceDefinition
	must.Succeed(t, yaml.UnmarshalStrict(b, &crd))
	pattern := regexp.MustCompile(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["versions"].Pattern)
	read := 0
	for _, version := range []string{"6", "1.2", "1.2.3", "1.2.3-rc.1", "1.2.3-rc-1+b.2", "*", "1.*", "1.x", "v1.2.3", "banana", "1.2.3 1.2.4"} {
		for _, operator := range []string{"", "=", "!=", "<", "<=", ">", ">=", "~>", "~", "^", "=="} {
			for _, form := range []string{"%", " % ", "%,", "% , %", "%,%", "%,,%", "\t%", "> 1, %"} {
				for _, space := range []string{"", " ", "  "} {
					text := strings.ReplaceAll(form, "%", operator+space+version)
					if _, err := addr.ParseConstraint(text); err != nil {
						continue
					}
					read++
					if !pattern.MatchString(text) || !pattern.MatchString(" ") {
						t.Errorf("%q is refused", text)
					}
				}
			}
		}
	}
	if read < 100 || pattern.MatchString("~> banana") || pattern.MatchString("latest") {
		t.Errorf("%d are read; the pattern is %s", read, pattern)
	}
}
