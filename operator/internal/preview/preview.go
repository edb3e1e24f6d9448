// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// UnknownUID is that of objects which have none yet: a cluster gives it.
const UnknownUID types.UID = "00000000-0000-0000-0000-000000000000"

// Site says what the flags of an operator do.
type Site struct {
	Registry kindspec.Registry
	Where    runaccess.Where
	Gate     string // of plans
	Flux     string // namespace of tofu-controller
}

// Definition is what a definition becomes: its kind, and the roles of it.
func Definition(k *kindspec.Kind) []any {
	all := []any{k.CRD()}
	for _, role := range kindspec.ClusterRoles(k.Definition) {
		all = append(all, role)
	}
	return all
}

// Object is what an object of a kind becomes, in the order in which it is made. The error
// is for who wrote the object or its definition; one of its own has a path.
func (s Site) Object(k *kindspec.Kind, given *unstructured.Unstructured) ([]any, error) {
	o := given.DeepCopy()
	if o.GetUID() == "" {
		o.SetUID(UnknownUID)
	}
	if errs := append(unknown(k, given), k.Admit(o)...); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	want, err := s.Registry.Wanted(k.Definition, o)
	if err != nil {
		return nil, err
	}
	access := want.Place(k.Definition, o)
	ready := s.Where.Names(access)
	ready.Into(&want.Run)
	want.Run.Gate = s.Gate
	flux, err := fluxexec.Build(want.Run)
	if err != nil {
		return nil, err
	}
	all := s.home(k, o, want)
	all = append(all, s.secrets(access, ready)...)
	for _, c := range want.Copies {
		data := map[string]string{}
		for _, key := range c.Keys {
			data[key] = fmt.Sprintf("of Secret %s, if it has %s: %s", c.From, "okara.dev/use", c.Use)
		}
		all = append(all, secret(access, c.Name, corev1.SecretTypeOpaque, data))
	}
	for _, o := range flux {
		all = append(all, o)
	}
	return append(all, outputs(k, o)...), nil
}

// unknown are the fields that an API server would drop, or refuse to a strict client.
func unknown(k *kindspec.Kind, given *unstructured.Unstructured) (errs field.ErrorList) {
	after := given.DeepCopy()
	_ = k.Admit(after) // what is wrong beside is said of the object itself
	for _, part := range [][]string{nil, {"spec"}, {"spec", kindspec.RunField}} {
		before, _, _ := unstructured.NestedMap(given.Object, part...) // another form is an error of its own
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

// home is where an object runs, if it has that for itself.
func (s Site) home(k *kindspec.Kind, o *unstructured.Unstructured, want kindrun.Wanted) (all []any) {
	if want.Run.Namespace == o.GetNamespace() {
		return nil
	}
	home := runhome.Home{
		Name: want.Run.Namespace, UID: o.GetUID(), Account: want.Run.ServiceAccountName,
		Annotations: k.Definition.Spec.Run.AccountAnnotations, Flux: s.Flux,
	}
	for _, o := range home.Objects() {
		all = append(all, o)
	}
	return all
}

// secrets are what a run reaches okara serve and its module with.
func (s Site) secrets(r runaccess.Run, ready runaccess.Ready) []any {
	all := []any{
		secret(r, ready.State.TokenSecret, corev1.SecretTypeOpaque, map[string]string{"token": "of the run, for okara serve"}),
		secret(r, ready.CLIConfigSecret, corev1.SecretTypeOpaque, map[string]string{"okara.tfrc": "a CLI configuration with that token"}),
	}
	if ready.PullSecret != "" {
		all = append(all, secret(r, ready.PullSecret, corev1.SecretTypeDockerConfigJson, map[string]string{corev1.DockerConfigJsonKey: "of the registry of the module"}))
	}
	if ca := ready.State.CA; ca != nil {
		m := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Home, Name: ca.ConfigMap}, Data: map[string]string{ca.Key: "the authority of okara serve"},
		}
		owned.Mark(m, r.UID)
		all = append(all, m)
	}
	if ready.CASecret != "" {
		all = append(all, secret(r, ready.CASecret, corev1.SecretTypeOpaque, map[string]string{"ca.crt": "the authority of okara serve"}))
	}
	return all
}

// secret is one without its values: instead of them it says what they are.
func secret(r runaccess.Run, name string, kind corev1.SecretType, what map[string]string) *corev1.Secret {
	o := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Home, Name: name}, Type: kind, StringData: map[string]string{},
	}
	for key, text := range what {
		o.StringData[key] = "(" + text + ")"
	}
	owned.Mark(o, r.UID)
	return o
}

// outputs are what users see of a run, and who may.
func outputs(k *kindspec.Kind, o *unstructured.Unstructured) (all []any) {
	include := k.Definition.Spec.Outputs.Include
	if len(include) == 0 {
		return nil
	}
	what := map[string]string{}
	for _, name := range include {
		what[string(name)] = "output " + string(name)
	}
	shown := secret(runaccess.Run{}, kindrun.OutputsSecret(k.Definition, o), corev1.SecretTypeOpaque, what)
	shown.Namespace, shown.Labels = o.GetNamespace(), kindspec.ObjectLabels(k.Definition, o)
	all = append(all, shown)
	if role, binding := kindspec.OutputsRole(k.Definition, o, shown.Name, ""); role != nil {
		all = append(all, role, binding)
	}
	return all
}
