// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// templateName is the name of the template of an object: NAMESPACE/NAME of
// NAMESPACE.NAME.
func templateName(object string) string { return strings.Replace(object, ".", "/", 1) }

// objectName is the name of the object of a template.
func objectName(template string) string { return strings.Replace(template, "/", ".", 1) }

// body is the block of a template in the JSON syntax of HCL.
type body map[string]any

func (b body) setText(name, value string) {
	if value != "" {
		b[name] = value
	}
}

func (b body) setNumber(name string, n int32) {
	if n != 0 {
		b[name] = n
	}
}

// readTemplate makes a template of an object, with the same checks as for a file of
// templates. The error names the field.
func readTemplate(o *v1alpha1.Template, known template.Known) (*template.Template, error) {
	known.Executors = []string{text.Kebab(v1alpha1.ExecutorTerraform), text.Kebab(v1alpha1.ExecutorHelm)}
	src, err := json.Marshal(map[string]any{"template": map[string]any{templateName(o.Name): templateBody(&o.Spec)}})
	if err != nil {
		return nil, err
	}
	t, err := template.ParseCanonical(src, known)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.NewReplacer("template.tf.json:1: ", "", "template.tf.json:1,", "").Replace(err.Error()))
	}
	return t, nil
}

func templateBody(s *v1alpha1.TemplateSpec) body {
	b := body{"protection": s.Protection}
	for name, value := range map[string]string{
		"title": s.Title, "description": s.Description, "icon": s.Icon, "category": s.Category, "executor": text.Kebab(s.Executor),
		"owner": ownerOf(s.Owner), "approval": text.Kebab(s.Approval.Mode), "timeout": string(s.Timeout), "update": text.Kebab(s.Update),
	} {
		b.setText(name, value)
	}
	for name, list := range map[string][]string{"groups": s.Groups, "outputs": s.Outputs, "credentials": s.Credentials} {
		if len(list) > 0 {
			b[name] = list
		}
	}
	for name, value := range map[string]*bool{"enabled": s.Enabled, "visible": s.Visible} {
		if value != nil {
			b[name] = *value
		}
	}
	b.setNumber("per_owner", s.PerOwner)
	b.setNumber("max", s.Max)
	if s.Retries != nil {
		b["retries"] = *s.Retries
	}
	if len(s.Inputs) > 0 {
		b["inputs"] = s.Inputs
	}
	if len(s.Notices) > 0 {
		b["notices"] = s.Notices
	}
	if m := s.Module; m != nil {
		module := body{"address": m.Address}
		module.setText("version", m.Version)
		module.setText("path", m.Path)
		b["module"] = module
	}
	if s.Chart != nil {
		b["chart"] = s.Chart
	}
	templateBlocks(b, s)
	return b
}

// ownerOf is the owner attribute of a template block: user, group or claim:NAME.
func ownerOf(o v1alpha1.TemplateOwner) string {
	if o.Claim != "" {
		return text.Kebab(o.Kind) + ":" + o.Claim
	}
	return text.Kebab(o.Kind)
}

func templateBlocks(b body, s *v1alpha1.TemplateSpec) {
	if l := s.TTL; l != nil {
		ttl := body{"default": text.Kebab(string(l.Default))}
		ttl.setText("max", string(l.Max))
		ttl.setText("extend", string(l.Extend))
		ttl.setText("failed", string(l.Failed))
		ttl.setNumber("extends", l.Extends)
		if l.Default != "None" {
			ttl.setText("on_expire", text.Kebab(l.OnExpire))
		}
		b["ttl"] = ttl
	}
	if p := s.Pool; p != nil {
		pool := body{"size": p.Size}
		pool.setNumber("max", p.Max)
		pool.setText("max_age", string(p.MaxAge))
		pool.setText("when_empty", text.Kebab(p.WhenEmpty))
		b["pool"] = pool
	}
	if c := s.Connection; c != nil {
		connection := body{}
		connection.setText("type", text.Kebab(c.Type))
		connection.setText("url", c.URL)
		connection.setText("message", c.Message)
		b["connection"] = connection
	}
	if d := s.Drift; d != nil {
		b["drift"] = body{"every": d.Every, "remediate": d.Remediate}
	}
	if c := s.Cost; c != nil {
		b["cost"] = body{"hourly": json.Number(c.Hourly), "currency": c.Currency}
	}
	var parameters []body // a list keeps their order
	for i := range s.Parameters {
		p := &s.Parameters[i]
		parameters = append(parameters, body{p.Name: parameterBody(p)})
	}
	if parameters != nil {
		b["parameter"] = parameters
	}
}

func parameterBody(p *v1alpha1.TemplateParameter) body {
	b := body{"update": p.Update}
	b.setText("title", p.Title)
	b.setText("help", p.Help)
	b.setText("pattern", p.Pattern)
	if p.Link != nil {
		b["link"] = *p.Link
	}
	if p.Default != nil {
		b["default"] = p.Default
	}
	if len(p.Enum) > 0 {
		b["enum"] = p.Enum
	}
	if len(p.When) > 0 {
		b["when"] = p.When
	}
	if p.Minimum != "" {
		b["minimum"] = json.Number(p.Minimum)
	}
	if p.Maximum != "" {
		b["maximum"] = json.Number(p.Maximum)
	}
	return b
}

// rawValues converts values of objects to those of the machine; values is the reverse.
func rawValues(all map[string]apiextensions.JSON) map[string]json.RawMessage {
	if all == nil {
		return nil
	}
	out := make(map[string]json.RawMessage, len(all))
	for name, v := range all {
		out[name] = v.Raw
	}
	return out
}

func toJSONValues(all map[string]json.RawMessage) map[string]apiextensions.JSON {
	if all == nil {
		return nil
	}
	out := make(map[string]apiextensions.JSON, len(all))
	for name, v := range all {
		out[name] = apiextensions.JSON{Raw: v}
	}
	return out
}
