// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// batch is the progress of a rollout.
type batch struct {
	waiting []*unstructured.Unstructured // to be updated
	changes []change                     // of the objects in waiting
	under   int                          // objects that are being updated
	failed  string                       // the first object whose update failed
	wrong   error                        // why a version is not available for an object
}

// freeSlots is how many more objects may be updated now.
func (w *batch) freeSlots(def *v1alpha1.ModuleKind) int {
	if w.failed != "" {
		return 0
	}
	return min(len(w.waiting), max(0, int(max(def.Spec.Upgrade.MaxConcurrent, 1))-w.under))
}

// rollOut updates the next objects; stopped: why no further one. It counts them too.
func (d *definitions) rollOut(ctx context.Context, def *v1alpha1.ModuleKind, k *kind, n *now) (stopped, err error) {
	if def.Status.Module == nil {
		return nil, nil
	}
	w, err := d.planBatch(ctx, def, k, n, k.eachCached)
	if err == nil && w.freeSlots(def) > 0 { // the cache may not show yet which objects were updated before
		w, err = d.planBatch(ctx, def, k, n, func(ctx context.Context, do func(*unstructured.Unstructured) error) error {
			return fluxobj.EachObject(ctx, d.Client, k.gvk, do)
		})
	}
	if err != nil {
		return nil, err
	}
	for i := range w.freeSlots(def) {
		if err := markUpdating(w.waiting[i]); err != nil {
			return nil, err
		}
		if err := k.takeChange(ctx, def, w.waiting[i], w.changes[i], w.changes[i].name()); err != nil {
			return nil, err
		}
	}
	if w.failed == "" || len(w.waiting) == 0 {
		return nil, w.wrong
	}
	return &verdict.Problem{Reason: v1alpha1.ReasonUpgradeStopped, Message: fmt.Sprintf("%s failed with the change, and %d objects wait unchanged: fix the object or the definition", w.failed, len(w.waiting))}, nil
}

// planBatch determines the progress of a rollout.
func (d *definitions) planBatch(ctx context.Context, def *v1alpha1.ModuleKind, k *kind, n *now, each func(context.Context, func(*unstructured.Unstructured) error) error) (*batch, error) {
	w := &batch{}
	count := 0
	err := each(ctx, func(o *unstructured.Unstructured) error {
		count++
		if o.GetDeletionTimestamp() != nil || changeOf(o) == (change{}) {
			return nil // it is being deleted, or gets what is current when it is reconciled
		}
		return d.addToBatch(ctx, def, k, o, n, w)
	})
	def.Status.Objects = int32(count)
	def.Status.Outdated = int32(len(w.waiting))
	return w, err
}

func (d *definitions) addToBatch(ctx context.Context, def *v1alpha1.ModuleKind, k *kind, o *unstructured.Unstructured, n *now, w *batch) error {
	is := changeOf(o)
	next := change{k.revision(), is.module}
	if len(n.versions) > 0 {
		newest, err := d.findNewer(ctx, def, o, n)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.wrong = cmp.Or(w.wrong, err) // the object stays unchanged, and others continue
		if newest.installed != nil {
			next.module = *newest.installed
		}
		if err := k.noteAvailable(ctx, o, newest.available); err != nil {
			return err
		}
	}
	switch {
	case next != is:
		w.waiting = append(w.waiting, o.DeepCopy())
		w.changes = append(w.changes, next)
	case fluxobj.Text(o, "status", "rollout") != is.name():
	case isConditionTrue(o, v1alpha1.ConditionStalled) && w.failed == "":
		w.failed = o.GetNamespace() + "/" + o.GetName()
	case isConditionTrue(o, v1alpha1.ConditionReady):
		return k.takeChange(ctx, def, o, is, "") // it is updated
	default:
		w.under++
	}
	return nil
}

// newer are the newer versions for an object.
type newer struct {
	installed *v1alpha1.ResolvedModule // for automatic upgrade; nil: none
	available string                   // the newest that a user can ask for
}

func (d *definitions) findNewer(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured, n *now) (newer, error) {
	is, err := addr.ParseVersion(changeOf(o).module.Version)
	if err != nil || kindspec.VersionAsked(o) != "" {
		return newer{}, nil
	}
	current, err := addr.ParseVersion(def.Status.Module.Version)
	if err != nil {
		return newer{}, nil
	}
	out := newer{}
	for _, v := range n.versions {
		if v.Compare(is) <= 0 {
			break
		}
		if v.Compare(current) > 0 { // the kind does not have its schema
			continue
		}
		if upgradesTo(def.Spec.Upgrade.Policy, is, v) {
			found := *def.Status.Module
			if v.Compare(current) != 0 {
				resolved, err := d.Modules.Version(ctx, def.Spec.Module, v)
				if err != nil {
					return out, fmt.Errorf("version %s: %w", v, err)
				}
				if err := d.checkRuns(def, resolved); err != nil {
					n.passOver(v, err)
					continue
				}
				found = resolved.ResolvedModule
			}
			out.installed = &found
			return out, nil
		}
		if out.available == "" {
			out.available = v.String()
		}
	}
	return out, nil
}

func upgradesTo(policy v1alpha1.UpgradePolicy, is, v addr.Version) bool {
	a := "v" + is.String()
	b := "v" + v.String()
	switch policy {
	case v1alpha1.UpgradeAny:
		return true
	case v1alpha1.UpgradeMinor:
		return semver.Major(a) == semver.Major(b)
	case v1alpha1.UpgradePatch:
		return semver.MajorMinor(a) == semver.MajorMinor(b)
	}
	return false
}

// noted are the fields of a status about newer versions.
type noted struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	UpdateAvailable string             `json:"updateAvailable,omitempty"`
}

// noteAvailable writes the available newer version to the status of an object.
func (k *kind) noteAvailable(ctx context.Context, o *unstructured.Unstructured, available string) error {
	if fluxobj.Text(o, "status", "updateAvailable") == available {
		return nil
	}
	s := noted{verdict.Conditions(o), available}
	if available == "" {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionUpdateAvailable)
	} else {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionUpdateAvailable, Status: metav1.ConditionTrue, Reason: "NewerVersion", Message: "spec." + kindspec.RunField + ".version: " + available + " requests it",
			ObservedGeneration: o.GetGeneration(),
		})
	}
	if err := verdict.WriteStatus(o, &s, "conditions", "updateAvailable"); err != nil {
		return err
	}
	return k.client.Status().Update(ctx, o)
}

// markUpdating sets the status of an object to updating, until it is reconciled.
func markUpdating(o *unstructured.Unstructured) error {
	s := struct {
		Conditions []metav1.Condition `json:"conditions"`
		Phase      string             `json:"phase"`
	}{verdict.Conditions(o), "Updating"}
	verdict.Verdict{Reason: v1alpha1.ReasonRunning, Message: "it is being updated"}.Set(&s.Conditions, o.GetGeneration())
	return verdict.WriteStatus(o, &s)
}

// isConditionTrue reports whether a condition of an object is true for its current generation.
func isConditionTrue(o *unstructured.Unstructured, kind string) bool {
	c := fluxobj.Conditions(o)[kind]
	return c.True() && c.Generation == o.GetGeneration()
}

func (k *kind) revision() string {
	k.state.Lock()
	defer k.state.Unlock()
	return k.now
}
