// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// settle makes the namespace of the run, and who runs in it.
func (x *one) settle(ctx context.Context) error {
	if x.shows() {
		if err := x.enter(ctx); err != nil {
			return err
		}
	}
	if !x.dedicated() {
		return x.mark(ctx) // accounts there are its administrator's
	}
	if err := runhome.Make(ctx, x.Client, x.home(), x.uid(), nil); err != nil {
		return err
	}
	home := runhome.Home{
		Name: x.home(), UID: x.uid(), Account: x.want.Run.ServiceAccountName, Annotations: x.def.Spec.Run.AccountAnnotations, Flux: x.FluxNamespace,
	}
	return home.Furnish(ctx, x.Client)
}

// enter gives the operator the Secrets of the namespace of the object. The end of an
// object goes on without: the namespace may be going, too.
func (x *one) enter(ctx context.Context) error {
	err := runhome.Enter(ctx, x.Client, x.o.GetNamespace())
	_, unmarked := errors.AsType[*runhome.NotAllowedError](err)
	if x.ends() && x.dedicated() && (unmarked || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		return nil
	}
	return err
}

// shows reports whether Secrets of the namespace of the object are read or written.
func (x *one) shows() bool {
	return !x.dedicated() || len(x.def.Spec.Outputs.Include) > 0 ||
		slices.ContainsFunc(x.want.Copies, func(c Copy) bool { return c.From.Namespace == x.o.GetNamespace() })
}

func with(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

// mark puts the label on the namespace of the object that keeps it from being deleted
// under runs.
func (x *one) mark(ctx context.Context) error {
	ns := &corev1.Namespace{}
	if err := x.Client.Get(ctx, client.ObjectKey{Name: x.home()}, ns); err != nil {
		return err
	}
	if _, marked := ns.Labels[v1alpha1.LabelRuns]; marked {
		return nil
	}
	return x.label(ctx, ns, "")
}

// label sets the label of runs on a namespace; nil takes it away.
func (c *Objects) label(ctx context.Context, ns *corev1.Namespace, value any) error {
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelRuns: value}}})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, ns, client.RawPatch(types.MergePatchType, b))
}

// copies brings the Secrets that the run reads into its namespace, and returns what
// changes with them.
func (x *one) copies(ctx context.Context) (versions string, err error) {
	var all []string
	for _, c := range x.want.Copies {
		version, err := x.copy(ctx, c)
		if err != nil {
			return "", err
		}
		all = append(all, version)
	}
	return strings.Join(all, "."), nil
}

// copy brings one Secret. What destroys does with the copy that was there, where the
// Secret itself went first.
func (x *one) copy(ctx context.Context, c Copy) (version string, err error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x.home(), Name: c.Name}}
	data, err := x.values(ctx, c)
	if _, lacks := errors.AsType[*problem](err); x.ends() && (lacks || apierrors.IsForbidden(err)) {
		if x.Client.Get(ctx, client.ObjectKeyFromObject(s), s) == nil && owned.Ours(s, x.uid()) {
			return s.ResourceVersion, nil
		}
	}
	if err != nil {
		return "", err
	}
	_, err = owned.Write(ctx, x.Client, s, x.uid(), func(s *corev1.Secret) error {
		s.Data = data
		return nil
	})
	return s.ResourceVersion, err
}

// values are those of the keys of a Secret that agrees to be read.
func (x *one) values(ctx context.Context, c Copy) (map[string][]byte, error) {
	from := &corev1.Secret{}
	err := x.Client.Get(ctx, c.From, from)
	if apierrors.IsNotFound(err) {
		return nil, &problem{reason: v1alpha1.ReasonSecretMissing, message: fmt.Sprintf("Secret %s is not there", c.From.Name), after: pending, retry: true}
	}
	if err != nil {
		return nil, err
	}
	if !agrees(from, c.Use) {
		return nil, &problem{reason: v1alpha1.ReasonSecretNotAllowed, message: fmt.Sprintf("Secret %s does not agree: annotate it %s=%s", c.From.Name, v1alpha1.AnnotationUse, c.Use), after: pending}
	}
	data := map[string][]byte{}
	for _, key := range c.Keys {
		value, ok := from.Data[key]
		if !ok {
			return nil, &problem{reason: v1alpha1.ReasonSecretMissing, message: fmt.Sprintf("Secret %s has no key %s", c.From.Name, key), after: pending, retry: true}
		}
		data[key] = value
	}
	return data, nil
}

// agrees reports whether a Secret may be used for something.
func agrees(s *corev1.Secret, use string) bool {
	return slices.ContainsFunc(strings.Split(s.Annotations[v1alpha1.AnnotationUse], ","), func(one string) bool { return strings.TrimSpace(one) == use })
}
