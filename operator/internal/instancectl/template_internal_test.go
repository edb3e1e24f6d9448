// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestTemplateWhen checks the conditions of parameters, and their validation.
func TestTemplateWhen(t *testing.T) {
	when := func(name, value string) map[string][]apiextensions.JSON {
		return map[string][]apiextensions.JSON{name: {{Raw: []byte(value)}}}
	}
	o := &v1alpha1.Template{Spec: v1alpha1.TemplateSpec{Module: &v1alpha1.TemplateModule{Address: "net/vpc/aws"}, Executor: v1alpha1.ExecutorTerraform}}
	o.Name = "sandbox.vpc"
	o.Spec.Parameters = []v1alpha1.TemplateParameter{{Name: "size"}, {Name: "nodes", When: when("size", `"large"`)}}
	got := must.Get(readTemplate(o, template.Known{}))(t)
	schema := must.Get(schemaOf(got, json.RawMessage(`{"properties":{"size":{"type":"string","default":"small"},"nodes":{"type":"number","default":1}}}`), nil))(t)
	if _, err := schema.CheckParameters(rawValues(toJSONValues(map[string]json.RawMessage{"nodes": json.RawMessage("3")}))); err == nil || !strings.Contains(err.Error(), `applies only when size is "large"`) {
		t.Errorf("what does not count: %v", err)
	}
	o.Spec.Parameters[1].When = when("sizes", `"large"`)
	if _, err := readTemplate(o, template.Known{}); err == nil || !strings.Contains(err.Error(), `parameter nodes: when: parameter "sizes" is not defined before it`) {
		t.Errorf("a wrong name: %v", err)
	}
}
