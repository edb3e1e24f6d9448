// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// unknownUID is for objects without UID yet.
const unknownUID types.UID = "00000000-0000-0000-0000-000000000000"

// operatorSite holds the settings that the flags of an operator give.
type operatorSite struct {
	Registry kindspec.Registry
	Where    runaccess.Where
	Gate     string // URL of the plan gate
	Flux     string // namespace of tofu-controller
}

// definitionObjects returns the objects that a definition becomes: its CRD and its roles.
func definitionObjects(k *kindspec.Kind) []any {
	all := []any{k.CRD()}
	for _, role := range kindspec.ClusterRoles(k.Definition) {
		all = append(all, role)
	}
	return all
}

// object returns what an object of a kind becomes, in the order of creation. The error is for the
// author of the object or its definition; one about the object has a path.
func (s operatorSite) object(k *kindspec.Kind, given *unstructured.Unstructured) ([]any, error) {
	o := given.DeepCopy()
	if o.GetUID() == "" {
		o.SetUID(unknownUID)
	}
	if errs := append(unknownFields(k, given), k.Admit(o)...); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	want, err := s.Registry.Wanted(k.Definition, o)
	if err != nil {
		return nil, err
	}
	access := want.Locate(k.Definition, o)
	ready := s.Where.Names(access)
	ready.Into(&want.Run)
	want.Run.Gate = s.Gate
	flux, err := fluxexec.Build(want.Run)
	if err != nil {
		return nil, err
	}
	all := s.runNamespace(k, o, want)
	all = append(all, s.secrets(access, ready)...)
	for _, c := range want.Copies {
		data := map[string]string{}
		for _, key := range c.Keys {
			data[key] = fmt.Sprintf("of Secret %s, if it has %s: %s", c.From, "okara.dev/use", c.Use)
		}
		all = append(all, describeSecret(access, c.Name, corev1.SecretTypeOpaque, data))
	}
	return slices.Concat(all, flux, outputObjects(k, o)), nil
}

// unknownFields lists the fields that an API server would drop, or reject from a strict client.
func unknownFields(k *kindspec.Kind, given *unstructured.Unstructured) (errs field.ErrorList) {
	after := given.DeepCopy()
	_ = k.Admit(after) // other errors are reported for the object itself
	for _, part := range [][]string{nil, {"spec"}, {"spec", kindspec.RunField}} {
		before, _, _ := unstructured.NestedMap(given.Object, part...) // a wrong type is an error of its own
		known, _, _ := unstructured.NestedMap(after.Object, part...)
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if _, is := known[name]; !is && before[name] != nil {
				path := append(slices.Clone(part), name)
				errs = append(errs, field.Invalid(field.NewPath(path[0], path[1:]...), field.OmitValueType{}, "unknown field"))
			}
		}
	}
	return errs
}

// runNamespace returns an object's own namespace's objects, if any.
func (s operatorSite) runNamespace(k *kindspec.Kind, o *unstructured.Unstructured, want kindrun.Wanted) (all []any) {
	if want.Run.Namespace == o.GetNamespace() {
		return nil
	}
	runNamespace := fluxobj.RunNamespace{
		Name: want.Run.Namespace, UID: o.GetUID(), Account: want.Run.ServiceAccountName,
		Annotations: k.Definition.Spec.Run.AccountAnnotations, Network: fluxobj.RunNetwork{Flux: s.Flux},
	}
	for _, o := range runNamespace.Objects() {
		all = append(all, o)
	}
	return all
}

// secrets returns the Secrets with which a run reaches okara serve and its module.
func (s operatorSite) secrets(r runaccess.Run, ready runaccess.Ready) []any {
	all := []any{
		describeSecret(r, ready.State.TokenSecret, corev1.SecretTypeOpaque, map[string]string{"token": "of the run, for okara serve"}),
		describeSecret(r, ready.CLIConfigSecret, corev1.SecretTypeOpaque, map[string]string{"okara.tfrc": "a CLI configuration with that token"}),
	}
	if ready.PullSecret != "" {
		all = append(all, describeSecret(r, ready.PullSecret, corev1.SecretTypeDockerConfigJson, map[string]string{corev1.DockerConfigJsonKey: "of the registry of the module"}))
	}
	if ca := ready.State.CA; ca != nil {
		m := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.RunNamespace, Name: ca.ConfigMap}, Data: map[string]string{ca.Key: "the CA of okara serve"},
		}
		fluxobj.Mark(m, r.UID)
		all = append(all, m)
	}
	if ready.CASecret != "" {
		all = append(all, describeSecret(r, ready.CASecret, corev1.SecretTypeOpaque, map[string]string{"ca.crt": "the CA of okara serve"}))
	}
	return all
}

// describeSecret returns a Secret that describes its values instead of containing them.
func describeSecret(r runaccess.Run, name string, kind corev1.SecretType, what map[string]string) *corev1.Secret {
	o := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.RunNamespace, Name: name}, Type: kind, StringData: map[string]string{},
	}
	for key, text := range what {
		o.StringData[key] = "(" + text + ")"
	}
	fluxobj.Mark(o, r.UID)
	return o
}

// outputObjects returns the outputs' Secret, and its readers' role.
func outputObjects(k *kindspec.Kind, o *unstructured.Unstructured) (all []any) {
	include := k.Definition.Spec.Outputs.Include
	if len(include) == 0 {
		return nil
	}
	what := map[string]string{}
	for _, name := range include {
		what[string(name)] = "output " + string(name)
	}
	shown := describeSecret(runaccess.Run{}, kindrun.OutputsSecret(k.Definition, o), corev1.SecretTypeOpaque, what)
	shown.Namespace = o.GetNamespace()
	shown.Labels = kindspec.ObjectLabels(k.Definition, o)
	all = append(all, shown)
	if role, binding := kindspec.OutputsRole(k.Definition, o, shown.Name, ""); role != nil {
		all = append(all, role, binding)
	}
	return all
}

func (s operatorSite) instance(t *v1alpha1.Template, given *v1alpha1.Instance, version v1alpha1.ResolvedModule, m kindspec.Module) ([]any, error) {
	o := given.DeepCopy()
	o.UID = cmp.Or(o.UID, unknownUID)
	settings := instancectl.Settings{Namespace: instancesNamespace}
	a, labels, err := settings.Preview(t, o, template.Source{Version: version.Version, Digest: version.Digest}, m)
	if err != nil {
		return nil, err
	}
	options := instancerun.Options{
		Registry: s.Registry.Host, Layout: s.Registry.Layout, PlainHTTP: s.Registry.PlainHTTP, Instances: instancesNamespace, Operator: s.Registry.Namespace, Gate: s.Gate,
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
	for i, made := range (fluxobj.RunNamespace{Name: a.Namespace, UID: o.UID, Network: fluxobj.RunNetwork{Flux: s.Flux}}).Objects() {
		if i == 0 { // the namespace
			maps.Copy(made.GetLabels(), labels)
		}
		all = append(all, made)
	}
	all = append(all, s.secrets(access, ready)...)
	for _, name := range a.Credentials {
		what := fmt.Sprintf("of Secret %s/%s, for the environment of the run", s.Registry.Namespace, name)
		all = append(all, describeSecret(access, instancerun.CopyOf(name), corev1.SecretTypeOpaque, map[string]string{"each.key": what}))
	}
	return append(all, flux...), nil
}
