// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

const terraformVersion, terraformKind = "infra.contrib.fluxcd.io/v1alpha2", "Terraform"

// AnnotationAttempt of a Terraform has the Attempt of the run.
const AnnotationAttempt = fluxobj.AnnotationAttempt

// Executor carries runs out by objects of a cluster. Its methods may be repeated, and be
// called on any replica.
//
// Errors, besides those of the API server: [*FieldError] for a run that cannot be,
// *owned.TakenError where an object of its name is somebody else's (NameTaken), and
// [*fluxobj.MissingError] where the cluster has no such kind (ExecutorMissing).
type Executor struct {
	Client client.Client
	// Live reads what is there now where Client has a cache of Flux's objects.
	Live client.Reader
}

func (e *Executor) as(s *Spec) fluxobj.Client {
	return fluxobj.Client{Client: e.Client, Live: e.Live, UID: s.UID}
}

// objects are those of a run as the cluster takes them.
func (s *Spec) objects() (source, run *unstructured.Unstructured, err error) {
	if s.UID == "" {
		return nil, nil, fieldf("uid", "what is the run made for?")
	}
	list, err := Build(*s)
	if err != nil {
		return nil, nil, err
	}
	if source, err = fluxobj.Encode(list[0]); err != nil {
		return nil, nil, err
	}
	run, err = fluxobj.Encode(list[1])
	return source, run, err
}

// Apply makes the objects of a run as they should be, and reports whether it wrote any.
// Each write takes back an approval that was not carried out yet (T4): it was of another
// run. An approval that was carried out, or refused by the gate, is taken back, too. A
// source that had to be written, as a new Request or Attempt, makes tofu-controller run
// at once (T16). Of a Terraform that is being deleted the source alone is made sure of
// (T1).
func (e *Executor) Apply(ctx context.Context, s Spec) (changed bool, err error) {
	source, run, err := s.objects()
	if err != nil {
		return false, err
	}
	c, key := e.as(&s), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	live, err := c.Get(ctx, terraformVersion, terraformKind, key) // before the source: it may be taken
	if err != nil {
		return false, err
	}
	source, changed, err = c.Ensure(ctx, source)
	if err != nil {
		return changed, err
	}
	if live != nil && live.GetDeletionTimestamp() != nil {
		return changed, nil
	}
	fluxobj.Annotate(run, fluxobj.AnnotationRequest, s.request(source))
	if live != nil {
		if err := unstructured.SetNestedField(run.Object, s.approve(live, run), "spec", "approvePlan"); err != nil {
			return changed, err
		}
	}
	_, wrote, err := c.Write(ctx, live, run)
	return changed || wrote, err
}

func (s *Spec) request(source *unstructured.Unstructured) string {
	return fluxobj.Request(s.Request, s.Attempt, source)
}

// approve is what approvePlan of a run has to be that is there already.
func (s *Spec) approve(live, want *unstructured.Unstructured) string {
	now, built := fluxobj.Text(live, "spec", "approvePlan"), fluxobj.Text(want, "spec", "approvePlan")
	if !fluxobj.SameSource(live, want) {
		return built
	}
	switch {
	case s.Approval == ApprovalManual && now != "" && carries(live):
		return now
	case built == approveAuto && s.Drift == DriftReport && (now == approveNone || s.applied(live)):
		return approveNone // what it applied it compares from now on
	}
	return built
}

// carries reports whether an approval is still to be carried out.
func carries(live *unstructured.Unstructured) bool {
	return fluxobj.Text(live, "spec", "approvePlan") == fluxobj.Text(live, "status", "plan", "pending") && !gateOf(live).refused(live)
}

// Observe tells how a run goes. One that does not get on may wait for its source, which
// says more of it.
func (e *Executor) Observe(ctx context.Context, s Spec) (Status, error) {
	c, key := e.as(&s), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	live, err := c.Get(ctx, terraformVersion, terraformKind, key)
	if err != nil {
		return Status{}, err
	}
	status := Observe(s, live)
	err = status.Look(ctx, c, fluxobj.OCIKind, key)
	return status, err
}

// Look has a run that does not get on tell why its source does not come, where it does not.
// Another one's source says nothing of it.
func (s *Status) Look(ctx context.Context, c fluxobj.Client, kind string, key client.ObjectKey) error {
	if s.Phase != Running && s.Phase != Destroying {
		return nil
	}
	source, err := c.Get(ctx, fluxobj.SourceVersion, kind, key)
	switch {
	case fluxobj.IsTaken(err):
		return nil
	case err != nil:
		return err
	}
	arrived := source != nil && fluxobj.Conditions(source)["Ready"].True()
	if failed := FailureOf(source); failed != (Failure{}) || sourceFails(s.Failure.Reason) && !arrived {
		s.Failure = failed // none as long as the source is being fetched
	}
	return nil
}

// Cancel keeps tofu-controller from beginning another run. One that goes on ends first.
// An [Executor.Apply] whose Spec has no Suspend undoes it.
func (e *Executor) Cancel(ctx context.Context, s Spec) error {
	c := e.as(&s)
	live, err := c.Get(ctx, terraformVersion, terraformKind, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
	if err != nil || live == nil || fluxobj.Suspended(live) {
		return err
	}
	return c.Change(ctx, live, map[string]any{"spec": map[string]any{"suspend": true, "approvePlan": taken(live)}})
}

// taken is approvePlan of a Terraform without the plan that it may name (T4).
func taken(live *unstructured.Unstructured) string {
	if now := fluxobj.Text(live, "spec", "approvePlan"); now == approveAuto || now == approveNone {
		return now
	}
	return ""
}

// Destroy takes the next step to the end of a run, and reports whether its Terraform is
// gone. The Secrets that the run reads have to be there until then, and its source,
// which Destroy makes sure of (T1). What it made outside is destroyed unless s.Keep.
// Then the caller looks at the state, and at last calls [Executor.Clean].
//
// A suspended Terraform is deleted first and goes on then (T13): the other way round it
// would run once more.
func (e *Executor) Destroy(ctx context.Context, s Spec) (gone bool, err error) {
	source, _, err := s.objects()
	if err != nil {
		return false, err
	}
	c := e.as(&s)
	live, err := c.Get(ctx, terraformVersion, terraformKind, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
	switch {
	case fluxobj.IsTaken(err): // ours was never made
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	}
	if source, _, err = c.Ensure(ctx, source); err != nil {
		return false, err
	}
	if how := s.ending(live, source); how != nil {
		return false, c.Change(ctx, live, how)
	}
	if live.GetDeletionTimestamp() == nil {
		return false, c.Remove(ctx, live)
	}
	return false, nil
}

// Drop takes the next step to the end of a Terraform without a run: what it made outside
// stays. It reports whether the Terraform is gone. One that is suspended is not finalised
// by tofu-controller (T13), whose finalizer goes then.
func (e *Executor) Drop(ctx context.Context, s Spec) (gone bool, err error) {
	c := e.as(&s)
	live, err := c.Get(ctx, terraformVersion, terraformKind, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
	switch {
	case fluxobj.IsTaken(err):
		return true, nil
	case err != nil || live == nil:
		return err == nil, err
	case !fluxobj.Suspended(live):
		return false, c.Change(ctx, live, map[string]any{"spec": map[string]any{"suspend": true, "approvePlan": taken(live)}})
	case live.GetDeletionTimestamp() == nil:
		return false, c.Remove(ctx, live)
	}
	return false, client.IgnoreNotFound(c.Change(ctx, live, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
}

// ending is what has to be changed of a Terraform before the next step of its end; nil:
// nothing.
func (s *Spec) ending(live, source *unstructured.Unstructured) map[string]any {
	destroys, _, _ := unstructured.NestedBool(live.Object, "spec", "destroyResourcesOnDeletion")
	hooks, _, _ := unstructured.NestedSlice(live.Object, "spec", "webhooks")
	if live.GetDeletionTimestamp() == nil {
		if destroys == !s.Keep {
			return nil
		}
		return map[string]any{"spec": map[string]any{"destroyResourcesOnDeletion": !s.Keep, "suspend": true, "approvePlan": taken(live)}}
	}
	asked := s.request(source)
	if !fluxobj.Suspended(live) && len(hooks) == 0 && destroys == !s.Keep && live.GetAnnotations()[fluxobj.AnnotationRequest] == asked {
		return nil
	}
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{fluxobj.AnnotationRequest: asked}},
		"spec": map[string]any{
			"destroyResourcesOnDeletion": !s.Keep, "suspend": false,
			"webhooks": nil, // deletion is wanted, whatever its plan is
		},
	}
}

// Clean removes what a run leaves when its Terraform is gone: the source, and the Secret
// of the raw outputs (T7). It reports whether all of it is gone.
func (e *Executor) Clean(ctx context.Context, s Spec) (gone bool, err error) {
	gone, err = e.as(&s).Clean(ctx, fluxobj.SourceVersion, fluxobj.OCIKind, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
	if err != nil {
		return false, err
	}
	return gone, e.cleanOutputs(ctx, s)
}

// cleanOutputs removes the Secret of the outputs, if tofu-controller wrote it: then the
// Terraform owns it.
func (e *Executor) cleanOutputs(ctx context.Context, s Spec) error {
	if s.OutputsSecret == "" {
		return nil
	}
	secret := &corev1.Secret{}
	err := e.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.OutputsSecret}, secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == terraformKind && o.Name == s.Name }) {
		return nil
	}
	return client.IgnoreNotFound(e.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
}

// Outputs are those that the run's Secret has, nil if there is none.
func (e *Executor) Outputs(ctx context.Context, s Spec) (map[string]Output, error) {
	if s.OutputsSecret == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := e.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.OutputsSecret}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ReadOutputs(secret.Data)
}
