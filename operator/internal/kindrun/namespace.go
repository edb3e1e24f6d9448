// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
)

func (x *object) ensureNamespace(ctx context.Context) error {
	if x.usesSecrets() {
		if err := x.enterNamespace(ctx); err != nil {
			return err
		}
	}
	if !x.isDedicated() {
		return x.markNamespace(ctx) // the administrator of the namespace provides its accounts
	}
	return fluxobj.EnsureNamespace(ctx, x.Client, x.runNamespace(), x.uid(), nil)
}

// enterNamespace gives the operator the namespace's Secrets; a deletion goes on without.
func (x *object) enterNamespace(ctx context.Context) error {
	err := fluxobj.Enter(ctx, x.Client, x.o.GetNamespace())
	_, unmarked := errors.AsType[*fluxobj.NotAllowedError](err)
	missing := unmarked || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
	if missing && x.isEnding() && x.isDedicated() {
		return nil
	}
	return err
}

// usesSecrets reports whether Secrets of the namespace of the object are read or written.
func (x *object) usesSecrets() bool {
	return !x.isDedicated() || len(x.def.Spec.Outputs.Include) > 0 ||
		slices.ContainsFunc(x.want.Copies, func(c fluxrun.Copy) bool { return c.From.Namespace == x.o.GetNamespace() })
}

// markNamespace labels the namespace against deletion while it has runs.
func (x *object) markNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{}
	if err := x.Client.Get(ctx, client.ObjectKey{Name: x.runNamespace()}, ns); err != nil {
		return err
	}
	if _, marked := ns.Labels[v1alpha1.LabelRuns]; marked {
		return nil
	}
	return x.labelNamespace(ctx, ns, "")
}

// labelNamespace sets the label of runs on a namespace; nil removes it.
func (c *Objects) labelNamespace(ctx context.Context, ns *corev1.Namespace, value any) error {
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelRuns: value}}})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, ns, client.RawPatch(types.MergePatchType, b))
}
