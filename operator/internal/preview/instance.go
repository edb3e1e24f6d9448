// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// Instance is what an Instance of a Template becomes with a version of its module, in the
// order in which it is made. The error is for who wrote one of them.
func (s Site) Instance(t *v1alpha1.Template, given *v1alpha1.Instance, version v1alpha1.ResolvedModule, m kindspec.Module) ([]any, error) {
	o := given.DeepCopy()
	if o.UID == "" {
		o.UID = UnknownUID
	}
	settings := instancectl.Settings{Namespace: o.Namespace}
	a, labels, err := settings.Preview(t, o, template.Source{Version: version.Version, Digest: version.Digest}, template.Module(m))
	if err != nil {
		return nil, err
	}
	options := instancerun.Options{
		Registry: s.Registry.Host, Layout: s.Registry.Layout, PlainHTTP: s.Registry.PlainHTTP, Instances: o.Namespace, Operator: s.Registry.Namespace, Gate: s.Gate,
	}
	run, access, err := options.Preview(a)
	if err != nil {
		return nil, err
	}
	ready := s.Where.Names(access)
	ready.Into(&run)
	flux, err := fluxexec.Build(run)
	if err != nil {
		return nil, err
	}
	var all []any
	for i, made := range (runhome.Home{Name: a.Namespace, UID: o.UID, Flux: s.Flux}).Objects() {
		if i == 0 { // the namespace
			maps.Copy(made.GetLabels(), labels)
		}
		all = append(all, made)
	}
	all = append(all, s.secrets(access, ready)...)
	for _, name := range a.Template.Credentials {
		what := fmt.Sprintf("of Secret %s/%s, for the environment of the run", s.Registry.Namespace, name)
		all = append(all, secret(access, instancerun.CopyOf(name), corev1.SecretTypeOpaque, map[string]string{"each.key": what}))
	}
	for _, one := range flux {
		all = append(all, one)
	}
	return all, nil
}
