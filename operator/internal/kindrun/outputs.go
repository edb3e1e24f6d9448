// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// planKey is the key of a ConfigMap with the text of a plan.
const planKey = "tfplan"

func outputsSecretName(x *object) string { return OutputsSecret(x.def, x.o) }

// OutputsSecret is the name of the Secret for users, beside the object.
func OutputsSecret(def *v1alpha1.ModuleKind, o metav1.Object) string {
	name := cmp.Or(def.Spec.Outputs.SecretName, "{singular}-{name}-outputs")
	singular := cmp.Or(def.Spec.Names.Singular, strings.ToLower(def.Spec.Names.Kind))
	return strings.NewReplacer("{name}", o.GetName(), "{singular}", singular).Replace(name)
}

// planConfigMapName contains the kind, because two kinds may have the same prefix, or none.
func planConfigMapName(x *object) string {
	return x.def.Spec.Names.Plural + "-" + x.o.GetName() + "-okara-plan"
}

// publishResults writes for users what they may see: outputs, and the text of a waiting plan.
func publishResults(ctx context.Context, x *object, now fluxexec.Status) error {
	if err := publishOutputs(ctx, x, now); err != nil {
		return err
	}
	plan := ""
	if x.status.Plan != nil {
		plan = planConfigMapName(x)
		x.status.Plan.ConfigMap = plan
	}
	if err := publishPlan(ctx, x, now); err != nil {
		return err
	}
	return publishRole(ctx, x, x.status.OutputsSecret, plan)
}

func publishOutputs(ctx context.Context, x *object, now fluxexec.Status) error {
	include := x.def.Spec.Outputs.Include
	if len(include) == 0 || now.Phase != fluxexec.Applied {
		return nil // earlier outputs stay while a run is under way
	}
	all, err := x.Executor.Outputs(ctx, x.want.Run)
	if err != nil || all == nil {
		return err
	}
	data := map[string][]byte{}
	for _, name := range include[:min(len(include), maxOutputs)] {
		if out, ok := all[string(name)]; ok {
			data[string(name)] = []byte(out.Text())
		}
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x.o.GetNamespace(), Name: outputsSecretName(x)}}
	err = showBeside(ctx, x, s, func(s *corev1.Secret) error {
		for key, value := range x.def.Spec.Outputs.Labels {
			s.Labels = fluxobj.With(s.Labels, key, value)
		}
		s.Data = data
		return nil
	})
	if taken, ok := errors.AsType[*fluxobj.TakenError](err); ok {
		return &verdict.Problem{Reason: v1alpha1.ReasonOutputsConflict, Message: "Secret " + taken.Key.Name + " exists and is not okara's: rename it or set outputs.secretName", After: pending}
	}
	if err != nil {
		return err
	}
	x.status.OutputsSecret = s.Name
	x.status.Outputs = slices.Sorted(maps.Keys(data))
	x.status.OutputValues = nil
	for _, name := range x.def.Spec.Outputs.Status {
		if out, ok := all[string(name)]; ok {
			if x.status.OutputValues == nil {
				x.status.OutputValues = map[string]json.RawMessage{}
			}
			x.status.OutputValues[string(name)] = out.Value
		}
	}
	return nil
}

// publishPlan copies the text of a waiting plan, and removes the copy if no plan waits.
func publishPlan(ctx context.Context, x *object, now fluxexec.Status) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x.o.GetNamespace(), Name: planConfigMapName(x)}}
	if now.Plan == nil {
		_, err := fluxobj.Delete(ctx, x.Client, m, x.uid())
		return err
	}
	from := &corev1.ConfigMap{}
	if err := x.Client.Get(ctx, client.ObjectKey{Namespace: x.runNamespace(), Name: now.Plan.ConfigMap}, from); client.IgnoreNotFound(err) != nil {
		return err
	}
	return showBeside(ctx, x, m, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{planKey: from.Data[planKey]}
		return nil
	})
}

// publishRole lets the readers of the definition read exactly this Secret and ConfigMap.
func publishRole(ctx context.Context, x *object, secret, plan string) error {
	role, bound := x.Readers(x.def, x.o, secret, plan)
	if role == nil {
		return nil
	}
	r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name}}
	if err := showBeside(ctx, x, r, func(r *rbacv1.Role) error {
		r.Labels = role.Labels
		r.Rules = role.Rules
		return nil
	}); err != nil {
		return err
	}
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: bound.Namespace, Name: bound.Name}}
	return showBeside(ctx, x, b, func(b *rbacv1.RoleBinding) error {
		b.Labels = bound.Labels
		b.RoleRef = bound.RoleRef
		b.Subjects = bound.Subjects
		return nil
	})
}

// showBeside writes o beside the object, over what a deleted one of the name left.
func showBeside[T client.Object](ctx context.Context, x *object, o T, set func(T) error) error {
	anew := o.DeepCopyObject().(T)
	write := func(o T) error {
		_, err := fluxobj.Write(ctx, x.Client, o, x.uid(), func(o T) error {
			if err := set(o); err != nil {
				return err
			}
			o.SetLabels(fluxobj.With(fluxobj.With(o.GetLabels(), v1alpha1.LabelKind, x.o.GetKind()), v1alpha1.LabelObject, x.o.GetName()))
			return nil
		})
		return err
	}
	err := write(o)
	if _, managed := o.GetLabels()[v1alpha1.LabelManaged]; !fluxobj.IsTaken(err) || !managed || o.GetLabels()[v1alpha1.LabelKind] != x.o.GetKind() || o.GetLabels()[v1alpha1.LabelObject] != x.o.GetName() {
		return err
	}
	uid := o.GetUID()
	if err := x.Client.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return err
	}
	return write(anew)
}

// withdrawResults removes what publishResults wrote.
func withdrawResults(ctx context.Context, x *object) (gone bool, err error) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: x.o.GetNamespace(), Name: name}
	}
	all := []client.Object{&corev1.ConfigMap{ObjectMeta: meta(planConfigMapName(x))}, &corev1.Secret{ObjectMeta: meta(outputsSecretName(x))}}
	if role, bound := x.Readers(x.def, x.o, outputsSecretName(x), ""); role != nil {
		all = append(all, &rbacv1.RoleBinding{ObjectMeta: meta(bound.Name)}, &rbacv1.Role{ObjectMeta: meta(role.Name)})
	}
	gone = true
	for _, o := range all {
		removed, err := fluxobj.Delete(ctx, x.Client, o, x.uid())
		if apierrors.IsForbidden(err) {
			// the operator was never allowed to write in the namespace
			removed = true
			err = nil
		}
		if err != nil {
			return false, err
		}
		gone = gone && removed
	}
	return gone, nil
}
