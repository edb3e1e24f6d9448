// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

const approvalIndex = "okara.dev/approval"

func approvalOf(o client.Object) []string {
	a, ok := o.(*v1alpha1.Approval)
	if !ok {
		return nil
	}
	return []string{a.Spec.Target.Kind + "/" + a.Spec.Target.Name}
}

// approvedEntries wakes the entry of a Version that an Approval is about.
func approvedEntries(ctx context.Context, r *entries, o client.Object) []reconcile.Request {
	a, ok := o.(*v1alpha1.Approval)
	if !ok || a.Spec.Target.Kind != kindVersion || a.Status.Result != "" {
		return nil
	}
	var v v1alpha1.Version
	if err := r.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.Target.Name}, &v); err != nil {
		return nil // there is no such Version
	}
	if !isEntry(&v) {
		return r.targets(ctx, &v)
	}
	if r.kind != kindVersion {
		return nil
	}
	return []reconcile.Request{requestFor(&v)}
}

// versionsOf returns the Versions of an entry, and the entry if it is one.
func versionsOf(ctx context.Context, r *entries, e *entry) ([]*v1alpha1.Version, error) {
	have, err := listVersions(ctx, r, client.ObjectKeyFromObject(e))
	if v, ok := e.Object.(*v1alpha1.Version); ok {
		have = append(have, v)
	}
	return have, err
}

// rejectedVersions reports which content of an entry a person rejected. What cannot be read waits.
func rejectedVersions(ctx context.Context, r *entries, e *entry) func(addr.Version, string) bool {
	return func(version addr.Version, digest string) bool {
		have, err := versionsOf(ctx, r, e)
		return err != nil || slices.ContainsFunc(have, func(v *v1alpha1.Version) bool {
			if v.Spec.Version != version.String() {
				return false
			}
			text, err := rejectionOf(ctx, r, v, digest)
			return err != nil || text != ""
		})
	}
}

// applyApprovals carries out the Approvals of the held-back versions of an entry, and reports
// whether one was published. The caller has checked that the entry holds its address.
func applyApprovals(ctx context.Context, r *entries, e *entry) (bool, error) {
	have, err := versionsOf(ctx, r, e)
	if err != nil {
		return false, err
	}
	published := false
	for _, v := range have {
		var list v1alpha1.ApprovalList
		if err := r.List(ctx, &list, client.InNamespace(v.Namespace), client.MatchingFields{approvalIndex: kindVersion + "/" + v.Name}); err != nil {
			return published, err
		}
		for i := range list.Items {
			did, err := applyApproval(ctx, r, e, v, &list.Items[i])
			published = published || did
			if err != nil {
				return published, err
			}
		}
	}
	return published, nil
}

// applyApproval carries out one Approval, and reports whether it published a version.
func applyApproval(ctx context.Context, r *entries, e *entry, v *v1alpha1.Version, a *v1alpha1.Approval) (bool, error) {
	switch {
	case !a.DeletionTimestamp.IsZero():
		return false, nil
	case a.Status.Result != "" && r.Now().Sub(a.CreationTimestamp.Time) > v1alpha1.ApprovalLife:
		return false, client.IgnoreNotFound(r.Delete(ctx, a, client.Preconditions{UID: &a.UID}))
	case a.Status.Result != "":
		return false, nil
	}
	status, err := publishApproved(ctx, r, e, v, a.Spec)
	if err != nil {
		return false, err
	}
	did := status.Result == v1alpha1.ApprovalApplied
	if did {
		r.emitEntryEvent(v, corev1.EventTypeNormal, v1alpha1.ReasonPublished, v.Spec.Version+", approved by "+a.Spec.Approver)
	}
	return did, dropPassing(verdict.Update(ctx, r.Client, a, func() { verdict.Decide(a, status.Result, text.Clip(status.Message, 4096)) }))
}

// rejectionOf returns who rejected the content of a held-back version, and why; "": nobody. That
// stays when the Approval's life ends.
func rejectionOf(ctx context.Context, r *entries, v *v1alpha1.Version, digest string) (text string, err error) {
	if c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonRejected && v.Status.Digest == digest {
		text = c.Message
	}
	var list v1alpha1.ApprovalList
	err = r.List(ctx, &list, client.InNamespace(v.Namespace), client.MatchingFields{approvalIndex: kindVersion + "/" + v.Name})
	var last metav1.Time
	for _, a := range list.Items {
		if s := a.Spec; s.Decision == v1alpha1.DecisionReject && s.Plan == digest && !a.CreationTimestamp.Before(&last) {
			last = a.CreationTimestamp
			text = strings.TrimSuffix("it was rejected by "+s.Approver+": "+s.Reason, ": ")
		}
	}
	return text, err
}

func publishApproved(ctx context.Context, r *entries, e *entry, v *v1alpha1.Version, a v1alpha1.ApprovalSpec) (v1alpha1.ApprovalStatus, error) {
	if a.Decision == v1alpha1.DecisionReject {
		return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalRejected, Message: "the version stays on hold"}, nil
	}
	if a.Generation != 0 && a.Generation != v.Generation {
		return staleStatus("it is for generation %d, but the Version is at %d: review it again", a.Generation, v.Generation), nil
	}
	version, err := addr.ParseVersion(v.Spec.Version)
	if err != nil {
		return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalFailed, Message: err.Error()}, nil
	}
	repo, err := r.Depot.Repo(e.item.Repository(r.Depot.Options().Layout))
	if err != nil {
		return v1alpha1.ApprovalStatus{}, err
	}
	_, err = r.Depot.Approve(ctx, repo, version, a.Plan)
	if errors.Is(err, oci.ErrNotFound) {
		return missingVersion(ctx, r, e.item.Kind, repo, version, a.Plan)
	}
	if errors.Is(err, oci.ErrExists) {
		return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalFailed, Message: err.Error()}, nil
	}
	return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalApplied}, err
}

// missingVersion decides about an Approval without candidate: it is published, or other content
// waits.
func missingVersion(ctx context.Context, r *entries, kind string, repo *oci.Repo, version addr.Version, digest string) (v1alpha1.ApprovalStatus, error) {
	l, err := depot.ReadListing(ctx, repo, kind, nil)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return v1alpha1.ApprovalStatus{}, err
	}
	if err == nil && l.Status(version).Yanked == nil {
		is, err := repo.Resolve(ctx, version.Tag())
		switch {
		case err == nil && is.Digest.String() == digest:
			return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalApplied}, nil
		case err != nil && !errors.Is(err, oci.ErrNotFound):
			return v1alpha1.ApprovalStatus{}, err
		}
	}
	return staleStatus("no candidate %s of version %s is pending: read the digest of the Version again", digest, version), nil
}

func staleStatus(format string, args ...any) v1alpha1.ApprovalStatus {
	return v1alpha1.ApprovalStatus{Result: v1alpha1.ApprovalStale, Message: fmt.Sprintf(format, args...)}
}
