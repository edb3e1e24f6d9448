// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// change is what an object has of its definition. The zero value: nothing yet.
type change struct {
	definition string // name of a revision
	module     v1alpha1.ResolvedModule
}

func (c change) name() string { return c.definition + "/" + c.module.Version }

func changeOf(o *unstructured.Unstructured) change {
	c := change{definition: fluxobj.Text(o, "status", "definition")}
	if module := kindspec.Running(o); module != nil {
		c.module = *module
	}
	return c
}

// kept is what the record and the status of an object store of its definition.
type kept struct {
	Definition string                  `json:"definition"`
	Module     v1alpha1.ResolvedModule `json:"module"`
	Rollout    string                  `json:"rollout,omitempty"` // name of the change that the object is being updated to
}

func recordOf(o *unstructured.Unstructured, def *v1alpha1.ModuleKind) records.Of {
	return records.Of{Plural: def.Spec.Names.Plural, Key: client.ObjectKeyFromObject(o)}
}

// restore returns an object's change, rollout, and the UID of its resources, after a lost status
// from its record. Of an earlier object's record only the change counts, UID "", until an
// administrator adopts or it is Ready.
func (k *kind) restore(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (is change, rollout string, uid types.UID, err error) {
	is = changeOf(o)
	rollout = fluxobj.Text(o, "status", "rollout")
	if uid := fluxobj.Text(o, "status", "uid"); uid != "" {
		return is, rollout, types.UID(uid), nil
	}
	var had kept
	uid, err = k.records.Load(ctx, recordOf(o, def), &had)
	if err != nil {
		return is, rollout, "", err
	}
	if is.module.Version == "" {
		is = change{had.Definition, had.Module}
	}
	if uid == "" || isConditionTrue(o, v1alpha1.ConditionReady) {
		return is, "", o.GetUID(), nil
	}
	if uid != o.GetUID() && o.GetAnnotations()[v1alpha1.AnnotationAdopt] != "true" && !fluxobj.Adopts(ctx, k.client, o.GetNamespace()) {
		return is, "", "", nil
	}
	return is, had.Rollout, uid, nil
}

// takeChange writes an object's new change; rollout names it until it is Ready.
func (k *kind) takeChange(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured, c change, rollout string) error {
	has := kept{c.definition, c.module, rollout}
	if uid := fluxobj.Text(o, "status", "uid"); uid != "" {
		if err := k.records.Save(ctx, recordOf(o, def), types.UID(uid), has); err != nil {
			return err
		}
	}
	if err := verdict.WriteStatus(o, &has, "rollout"); err != nil {
		return err
	}
	return k.client.Status().Update(ctx, o)
}

// Reconcile reconciles one object.
func (k *kind) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := k.object()
	if err := k.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	k.state.Lock()
	def := k.def
	now := k.now
	k.state.Unlock()
	if def == nil {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if err := k.assign(ctx, def, now, o); err != nil {
		if err = k.objects.Report(ctx, o, err); errors.Is(err, errNoVersion) {
			return reconcile.Result{RequeueAfter: soon}, nil
		}
		return reconcile.Result{}, err
	}
	k.state.Lock()
	k.known[string(v1alpha1.UIDOf(o))] = req.NamespacedName
	k.state.Unlock()
	after, err := k.objects.Reconcile(ctx, k.definitionAt(def, changeOf(o).definition), o)
	return reconcile.Result{RequeueAfter: after}, err
}

func (k *kind) definitionAt(def *v1alpha1.ModuleKind, name string) *v1alpha1.ModuleKind {
	k.state.Lock()
	defer k.state.Unlock()
	if r, ok := k.all[name]; ok {
		return withOrphaned(r.applyRevision(def))
	}
	return withOrphaned(def)
}

// assign gives a new object the current change, a restored one its former, any the version it asks
// for. [kindspec.Registry.Wanted] refuses missing ones.
func (k *kind) assign(ctx context.Context, def *v1alpha1.ModuleKind, now string, o *unstructured.Unstructured) error {
	is, rollout, uid, err := k.restore(ctx, def, o)
	if err != nil {
		return err
	}
	next := is
	if o.GetDeletionTimestamp() == nil {
		if next, err = k.chooseChange(ctx, def, now, o, is); err != nil {
			return err
		}
	}
	if next != is {
		rollout = ""
	}
	if next == changeOf(o) && string(uid) == fluxobj.Text(o, "status", "uid") || next.module.Version == "" {
		return nil
	}
	if err := unstructured.SetNestedField(o.Object, string(uid), "status", "uid"); err != nil {
		return err
	}
	return k.takeChange(ctx, def, o, next, rollout)
}

// errNoVersion says that a definition has no version for an object that had none before.
var errNoVersion = errors.New("no version of the module was chosen yet: the ModuleKind shows why")

func (k *kind) chooseChange(ctx context.Context, def *v1alpha1.ModuleKind, now string, o *unstructured.Unstructured, next change) (change, error) {
	if next.module.Version == "" && def.Status.Module == nil {
		return next, errNoVersion
	}
	if next.module.Version == "" {
		next = change{now, *def.Status.Module}
	}
	next.definition = cmp.Or(next.definition, now)
	asks := kindspec.VersionAsked(o)
	if asks == "" || asks == next.module.Version {
		return next, nil
	}
	found, err := k.versionAsked(ctx, def, asks)
	if found != nil {
		next.module = *found
	}
	return next, err
}

// versionAsked returns the version that an object asks for, nil if it is not available.
func (k *kind) versionAsked(ctx context.Context, def *v1alpha1.ModuleKind, asks string) (*v1alpha1.ResolvedModule, error) {
	v, err := addr.ParseVersion(asks)
	if err != nil {
		return nil, nil
	}
	if is := def.Status.Module; is != nil && is.Version == v.String() {
		return is, nil
	}
	all, err := allowedVersions(ctx, k.modules, def.Spec.Module)
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
