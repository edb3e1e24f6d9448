// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

func templateName(object string) string { return strings.Replace(object, ".", "/", 1) }

func objectName(template string) string { return strings.Replace(template, "/", ".", 1) }

// readTemplate makes a template of an object, checked like a file's. The error names the field.
func readTemplate(o *v1alpha1.Template, known template.Known) (*template.Template, error) {
	known.Executors = []string{text.Kebab(v1alpha1.ExecutorTerraform), text.Kebab(v1alpha1.ExecutorHelm)}
	body, err := templateBody(&o.Spec)
	if err != nil {
		return nil, err
	}
	src, err := json.Marshal(map[string]any{"template": map[string]any{templateName(o.Name): body}})
	if err != nil {
		return nil, err
	}
	t, err := template.ParseCanonical(src, known)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.NewReplacer("template.tf.json:1: ", "", "template.tf.json:1,", "").Replace(err.Error()))
	}
	return t, nil
}

// templateBody returns the block of a template in the JSON syntax of HCL.
func templateBody(s *v1alpha1.TemplateSpec) (map[string]any, error) {
	src, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	b := blockOf(fields, "executor", "update")
	for block, words := range map[string][]string{"module": nil, "ttl": {"default", "onExpire"}, "pool": {"whenEmpty"}, "connection": {"type"}, "drift": nil, "cost": nil} {
		if in, ok := b[block].(map[string]any); ok {
			b[block] = blockOf(in, words...)
		}
	}
	delete(b, "owner")
	if owner := text.Kebab(s.Owner.Kind); s.Owner.Claim != "" {
		b["owner"] = owner + ":" + s.Owner.Claim
	} else if owner != "" {
		b["owner"] = owner
	}
	delete(b, "approval")
	if s.Approval.Mode != "" {
		b["approval"] = text.Kebab(s.Approval.Mode)
	}
	if ttl, ok := b["ttl"].(map[string]any); ok && s.TTL.Default == "None" {
		delete(ttl, "on_expire")
	}
	if list, ok := b["parameters"].([]any); ok {
		for i, p := range list { // a list keeps their order
			in, _ := p.(map[string]any)
			list[i] = map[string]any{s.Parameters[i].Name: blockOf(in)}
		}
		b["parameter"] = list
		delete(b, "parameters")
	}
	return b, nil
}

// blockOf returns fields under HCL's names; words are CamelCase, fractions strings.
func blockOf(fields map[string]any, words ...string) map[string]any {
	delete(fields, "name")
	b := map[string]any{}
	for key, value := range fields {
		if s, ok := value.(string); ok {
			switch {
			case slices.Contains(words, key):
				value = text.Kebab(s)
			case slices.Contains([]string{"hourly", "minimum", "maximum"}, key):
				value = json.Number(s)
			}
		}
		b[strings.ReplaceAll(text.Kebab(key), "-", "_")] = value
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
