// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"fmt"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Preview is the first attempt that an Instance of a Template is given with a version of
// its module, and the labels of the namespace in which it runs. It is pure. The error is
// for who wrote one of them.
func (s Settings) Preview(tmpl *v1alpha1.Template, o *v1alpha1.Instance, version template.Source, m template.Module) (a Attempt, labels map[string]string, err error) {
	t, err := readTemplate(tmpl, s.known())
	if err != nil {
		return a, nil, err
	}
	if t.Chart != nil {
		return a, nil, fmt.Errorf("Template %s installs a chart: only instances of modules are rendered", tmpl.Name)
	}
	t = t.WithDefaults(s.Defaults)
	if err := t.CheckExpressions(s.known()); err != nil {
		return a, nil, err
	}
	schema, err := schemaOf(t, m.Inputs, m.Outputs)
	if err != nil {
		return a, nil, err
	}
	r := &lifecycle.Record{ID: o.Name, Template: t.Name, Owner: s.Users.owner(o), Pooled: o.Spec.Owner == nil, Claims: map[string]string{}}
	for name, value := range o.Spec.Claims {
		r.Claims[name] = string(value)
	}
	if r.Parameters, err = schema.CheckParameters(rawValues(o.Spec.Parameters)); err != nil {
		return a, nil, err
	}
	version.Module, version.Path = t.Module.Address, t.Module.Path
	a = Attempt{
		Ref: lifecycle.Ref{ID: r.ID, Kind: lifecycle.RunApply, N: 1, Attempt: 1, Nonce: "00000000"}, UID: o.UID, Namespace: workspaceName(r), Template: t, Source: version,
	}
	if t.Approval == template.ApprovalPlan {
		a.Kind = lifecycle.RunPlan
	}
	a.Variables, err = template.Render(t, template.Scope{ID: r.ID, Owner: r.Owner, Parameters: r.Parameters, Claims: r.Claims, Config: s.Config})
	return a, workspaceLabels(r), err
}
