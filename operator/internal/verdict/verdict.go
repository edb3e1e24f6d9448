// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// State is the state of an object according to kstatus.
type State int

// Values of State.
const (
	UnderWay State = iota // nothing is wrong, but the work is not finished
	Ready                 // everything is as the object says
	Failing               // something is wrong that may resolve itself: it is retried
	Stalled               // a user has to change something
	Held                  // a user stopped it: there is nothing to do
)

// String is the message of a verdict that has none.
func (s State) String() string {
	return [...]string{"it is under way", "it is as the object specifies", "it is retried", "it must be changed", "it is stopped"}[s]
}

const (
	// maxMessage bounds the message of a condition, maxNote that of an event, in bytes.
	maxMessage, maxNote = 4 << 10, 1000
)

// Verdict is what to report about an object.
type Verdict struct {
	State           State
	Reason, Message string
}

// Of returns the verdict for an object. An object that is being deleted is not Ready.
func (v Verdict) Of(o metav1.Object) Verdict {
	if o.GetDeletionTimestamp() == nil || v.State != Ready {
		return v
	}
	return Verdict{UnderWay, v1alpha1.ReasonDestroying, "it is being deleted"}
}

// Phase returns a phase that fits the conditions: Ready and Available require the state Ready, none
// in progress is Stalled. under is the phase of unfinished work.
func (v Verdict) Phase(is, under string) string {
	well := is == "Ready" || is == "Available"
	ended := is == "Failed"
	switch {
	case v.State == Ready:
		return is
	case well && v.Reason == v1alpha1.ReasonDestroying:
		return "Destroying"
	case v.State == Stalled:
		if slices.Contains([]string{"Rejected", "Destroying", "DestroyFailed"}, is) {
			return is
		}
		return "Failed"
	case well, ended:
		return under
	}
	return is
}

// Set writes the conditions of kstatus. Other conditions are unchanged.
func (v Verdict) Set(list *[]metav1.Condition, generation int64) {
	v.setCondition(list, v1alpha1.ConditionReady, v.State == Ready, generation)
	for _, c := range []struct {
		kind  string
		holds bool
	}{
		{v1alpha1.ConditionReconciling, v.State == UnderWay || v.State == Failing},
		{v1alpha1.ConditionStalled, v.State == Stalled},
	} {
		if c.holds {
			v.setCondition(list, c.kind, true, generation)
		} else {
			meta.RemoveStatusCondition(list, c.kind)
		}
	}
}

func (v Verdict) setCondition(list *[]metav1.Condition, kind string, is bool, generation int64) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(list, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: v.Reason, Message: text.Clip(cmp.Or(text.Block(v.Message), v.State.String()), maxMessage),
	})
}

// Say writes a verdict into the conditions of an object, and reports it.
func (v Verdict) Say(recorder events.EventRecorder, o client.Object, list *[]metav1.Condition) {
	before := slices.Clone(*list)
	v = v.Of(o)
	v.Set(list, o.GetGeneration())
	v.Report(recorder, o, before)
}

// Report emits a Warning, unless conditions before say the same; a message that always changes is
// no reason.
func (v Verdict) Report(recorder events.EventRecorder, o client.Object, before []metav1.Condition) {
	if recorder == nil || v.State != Failing && v.State != Stalled {
		return
	}
	had := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	if had != nil && had.Status == metav1.ConditionFalse && had.Reason == v.Reason && meta.IsStatusConditionTrue(before, v1alpha1.ConditionStalled) == (v.State == Stalled) {
		return
	}
	recorder.Eventf(o, nil, corev1.EventTypeWarning, v.Reason, "Reconcile", "%s", text.Clip(text.Block(v.Message), maxNote))
}

// Update writes what say changes in the status of an object.
func Update(ctx context.Context, c client.Client, o client.Object, say func()) error {
	before := o.DeepCopyObject().(client.Object)
	say()
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	return c.Status().Patch(ctx, o, Since(before))
}

// Since is the patch since before, which conflicts with others' writes and keeps unknown fields.
func Since(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Exact is like [Since], but nulls in values stay, which a merge patch takes as removals.
func Exact(before client.Object) client.Patch { return exact{before} }

type exact struct{ before client.Object }

func (exact) Type() types.PatchType { return types.JSONPatchType }

func (p exact) Data(o client.Object) ([]byte, error) {
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.before) // keeps each int64
	if err != nil {
		return nil, err
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	for _, all := range []map[string]any{was, is} {
		if status, ok := all["status"].(map[string]any); ok && len(status) == 0 {
			delete(all, "status") // it may not exist, and nothing can be added below it then
		}
	}
	ops := addOperations([]operation{}, "", was, is)
	if len(ops) > 0 {
		ops = append(ops, operation{"add", "/metadata/resourceVersion", p.before.GetResourceVersion()})
	}
	return json.Marshal(ops)
}

// operation is one of a JSON patch (RFC 6902, section 4).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901, section 3

// addOperations adds what makes was to is; a list is replaced. None fails if others changed a
// member meanwhile: "add" replaces what is there. It is a conflict then.
func addOperations(ops []operation, path string, was, is map[string]any) []operation {
	for _, key := range slices.Sorted(maps.Keys(is)) {
		at := path + "/" + pointerEscapes.Replace(key)
		had, ok := was[key]
		from, isMap := had.(map[string]any)
		to, staysMap := is[key].(map[string]any)
		switch {
		case isMap && staysMap:
			ops = addOperations(ops, at, from, to)
		case !ok || !reflect.DeepEqual(had, is[key]):
			ops = append(ops, operation{"add", at, is[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[key]; !ok {
			at := path + "/" + pointerEscapes.Replace(key)
			ops = append(ops, operation{"add", at, ""}, operation{"remove", at, nil})
		}
	}
	return ops
}

// Problem is an error that a user has to correct, or that is temporary.
type Problem struct {
	Reason, Message string
	After           time.Duration // when to reconcile again; 0: when something changes
	Retry           bool          // it may resolve itself
}

func (p *Problem) Error() string { return p.Message }

// Verdict returns a problem's verdict; running work is under way.
func (p *Problem) Verdict() Verdict {
	v := Verdict{Stalled, p.Reason, p.Message}
	switch {
	case p.Reason == v1alpha1.ReasonRunning:
		v.State = UnderWay
	case p.Retry:
		v.State = Failing
	}
	return v
}

// ReadStatus reads the status of an object that has no Go type.
func ReadStatus(o *unstructured.Unstructured, into any) error {
	is, _, err := unstructured.NestedMap(o.Object, "status")
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(is, into)
}

// WriteStatus copies from, a pointer, into a status; own, its optional fields, are removed first.
// Others stay.
func WriteStatus(o *unstructured.Unstructured, from any, own ...string) error {
	to, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	is, _, err := unstructured.NestedMap(o.Object, "status")
	if err != nil {
		return err
	}
	for _, key := range own {
		delete(is, key)
	}
	if is == nil {
		is = map[string]any{}
	}
	maps.Copy(is, to)
	o.Object["status"] = is
	return nil
}

// Conditions returns the conditions of such an object, or none if they are invalid.
func Conditions(o *unstructured.Unstructured) []metav1.Condition {
	var s struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if ReadStatus(o, &s) != nil {
		return nil
	}
	return s.Conditions
}

// ReasonPending is the reason of an Approval that has not been judged yet.
const ReasonPending = "Pending"

// Decide writes an Approval's result, "" for none, and reports a change.
func Decide(a *v1alpha1.Approval, result v1alpha1.ApprovalResult, message string) bool {
	s := &a.Status
	rejected := result == v1alpha1.ApprovalRejected
	if s.Result == result && (s.Message == message || rejected) && s.ObservedGeneration == a.Generation {
		return false
	}
	if rejected {
		message = strings.TrimSuffix("it was rejected by "+a.Spec.Approver+": "+message, ": ")
	}
	v := Verdict{Reason: string(result), Message: message}
	switch result {
	case "":
		v.Reason = ReasonPending
	case v1alpha1.ApprovalApplied, v1alpha1.ApprovalRejected:
		v.State = Ready
	case v1alpha1.ApprovalFailed, v1alpha1.ApprovalRefused, v1alpha1.ApprovalStale:
		v.State = Stalled
	}
	s.Result = result
	s.Message = message
	s.ObservedGeneration = a.Generation
	v.Set(&s.Conditions, a.Generation)
	return true
}
