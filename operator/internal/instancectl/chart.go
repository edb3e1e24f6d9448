// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"encoding/json"
	"errors"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// ChartSource is where a chart is; which one of it is not said.
func ChartSource(c *v1alpha1.Chart) template.Source {
	var s template.Source
	switch {
	case c.OCI != nil:
		s.Chart = c.OCI.URL
	case c.Helm != nil:
		s.Chart, s.Path = c.Helm.URL, c.Helm.Name
	case c.Git != nil:
		s.Chart, s.Path = c.Git.URL, c.Git.Path
	}
	if c.SecretRef != nil {
		s.Secret = c.SecretRef.Name
	}
	return s
}

// resolveChart fills the status of a Template with a chart.
func (r *resolver) resolveChart(ctx context.Context, o *v1alpha1.Template, t *template.Template) error {
	s := &o.Status
	s.Source = ChartSource(o.Spec.Chart).Chart
	inputs, err := valuesSchema(t)
	if err != nil {
		return invalid{err}
	}
	if _, err := schemaOf(t, inputs, nil); err != nil {
		return invalid{err}
	}
	source, err := r.Charts.Resolve(ctx, o)
	if err != nil {
		return err
	}
	s.Version, s.Digest, s.Versions = source.Version, source.Digest, []v1alpha1.TemplateVersion{versionOf(source)}
	s.Inputs, s.Outputs = &apiextensions.JSON{Raw: inputs}, nil
	return r.digest(o, t)
}

// isMissing reports whether the controller of a kind is not installed.
func isMissing(err error) bool {
	_, missing := errors.AsType[*fluxobj.MissingError](err)
	return missing
}

// valuesSchema is what a template itself says of the values of its chart: nobody looks
// into that. A parameter is what its default is, a number where it has a bound, else text;
// one with a list of values is one of these.
func valuesSchema(t *template.Template) (json.RawMessage, error) {
	properties := map[string]any{}
	var inputs map[string]any
	if len(t.Inputs) > 0 {
		if err := json.Unmarshal(t.Inputs, &inputs); err != nil {
			return nil, err
		}
	}
	for name := range inputs {
		properties[name] = map[string]any{}
	}
	for i := range t.Parameters {
		property := map[string]any{}
		if kind := typeOf(&t.Parameters[i]); kind != "" {
			property["type"] = kind
		}
		properties[t.Parameters[i].Name] = property
	}
	return json.Marshal(map[string]any{"properties": properties})
}

// typeOf is the type of a parameter in JSON Schema; "": any.
func typeOf(p *template.Parameter) string {
	switch {
	case p.Enum != nil:
		return ""
	case p.Minimum != nil || p.Maximum != nil:
		return "number"
	case p.Default == nil:
		return "string"
	}
	switch p.Default[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return ""
	}
	return "number"
}
