// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
)

// change is what an object has of its definition. The zero value: nothing yet.
type change struct {
	definition string // name of a revision
	module     v1alpha1.ResolvedModule
}

// name of a change, as it is in a status.
func (c change) name() string { return c.definition + "/" + c.module.Version }

func changeOf(o *unstructured.Unstructured) change {
	c := change{definition: field(o, "status", "definition")}
	if module := kindspec.Running(o); module != nil {
		c.module = *module
	}
	return c
}

func field(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// take writes into the status of an object what it has from now on. The change that it has
// to get through is named there until it is Ready with it.
func (k *kind) take(ctx context.Context, o *unstructured.Unstructured, c change, rollout string, more map[string]any) error {
	status, _, err := unstructured.NestedMap(o.Object, "status")
	if err != nil {
		return err
	}
	if status == nil {
		status = map[string]any{}
	}
	status["definition"], status["module"] = c.definition, map[string]any{"version": c.module.Version, "digest": c.module.Digest}
	delete(status, "rollout")
	if rollout != "" {
		status["rollout"] = rollout
	}
	maps.Copy(status, more)
	o.Object["status"] = status
	return k.client.Status().Update(ctx, o)
}

// Reconcile carries one object out.
func (k *kind) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := k.object()
	if err := k.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	k.state.Lock()
	k.known[string(o.GetUID())] = req.NamespacedName
	def, now := k.def, k.now
	k.state.Unlock()
	if def == nil || def.Status.Module == nil && kindspec.Running(o) == nil {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if o.GetDeletionTimestamp() == nil {
		if err := k.assign(ctx, def, now, o); err != nil {
			return reconcile.Result{}, err
		}
	}
	after, err := k.objects.Reconcile(ctx, k.at(def, changeOf(o).definition), o)
	return reconcile.Result{RequeueAfter: after}, err
}

// at is the definition as an object has it.
func (k *kind) at(def *v1alpha1.ModuleKind, name string) *v1alpha1.ModuleKind {
	k.state.Lock()
	defer k.state.Unlock()
	if r, ok := k.all[name]; ok {
		return orphaned(r.in(def))
	}
	return orphaned(def)
}

// assign gives a new object what is current, and any the version that it asks for. A
// version that it cannot have is for [kindspec.Registry.Wanted] to refuse.
func (k *kind) assign(ctx context.Context, def *v1alpha1.ModuleKind, now string, o *unstructured.Unstructured) error {
	is := changeOf(o)
	next := is
	if is.module.Version == "" {
		next = change{now, *def.Status.Module}
	}
	if is.definition == "" {
		next.definition = now
	}
	if asks := field(o, "run", "version"); asks != "" && asks != next.module.Version {
		found, err := k.version(ctx, def, asks)
		if err != nil {
			return err
		}
		if found != nil {
			next.module = *found
		}
	}
	if next == is {
		return nil
	}
	return k.take(ctx, o, next, "", nil)
}

// version is one that somebody asks for, nil where it cannot be had.
func (k *kind) version(ctx context.Context, def *v1alpha1.ModuleKind, asks string) (*v1alpha1.ResolvedModule, error) {
	v, err := addr.ParseVersion(asks)
	if err != nil {
		return nil, nil
	}
	if def.Status.Module.Version == v.String() {
		return def.Status.Module, nil
	}
	all, err := allowed(ctx, k.modules, def.Spec.Module)
	if isProblem(err) {
		return nil, nil
	}
	for _, other := range all {
		if other.Compare(v) == 0 {
			found, err := k.modules.Version(ctx, def.Spec.Module, v)
			if err != nil && !isProblem(err) {
				return nil, fmt.Errorf("version %s: %w", v, err)
			}
			return &found.ResolvedModule, nil
		}
	}
	return nil, err
}
