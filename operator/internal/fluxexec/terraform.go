// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxLeaves bounds an annotation, in bytes.
const maxLeaves = 16 << 10

const terraformVersion, terraformKind = "infra.contrib.fluxcd.io/v1alpha2", "Terraform"

// Terraforms returns the kind of the objects that run modules.
func Terraforms() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(terraformVersion, terraformKind)
}

// CheckInstalled returns a [*verdict.Problem] if the cluster lacks the kind that runs modules, or charts
// with helm, or if there is no gate for plans that have to be approved.
func CheckInstalled(mapper meta.RESTMapper, helm, approved bool, gate string) error {
	kind, what := Terraforms().GroupKind(), "terraforms.infra.contrib.fluxcd.io: install tofu-controller 0.16 or newer"
	if helm {
		kind, what = schema.GroupKind{Group: helmv2.GroupVersion.Group, Kind: helmv2.HelmReleaseKind}, "helmreleases.helm.toolkit.fluxcd.io: install helm-controller"
	}
	_, err := mapper.RESTMapping(kind)
	switch {
	case meta.IsNoMatchError(err):
		return &verdict.Problem{Reason: v1alpha1.ReasonExecutorMissing, Message: "no CRD " + what, Retry: true}
	case err == nil && approved && gate == "":
		return &verdict.Problem{Reason: PlanGateMissing, Message: "approval of plans requires the plan gate: an administrator can set it with --plan-gate-address, or operator.planGate.secret of the chart", Retry: true}
	}
	return err
}

func (s Spec) workInfo() about {
	key := client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
	return about{terraformVersion, terraformKind, fluxobj.OCIKind, key, key, s.UID, s.Request, s.Attempt}
}

// adjustMain sets approvePlan of a run that exists already.
func (s Spec) adjustMain(live, main *unstructured.Unstructured) error {
	if live == nil {
		return nil
	}
	return unstructured.SetNestedField(main.Object, s.approve(live, main), "spec", "approvePlan")
}

func (s Spec) approve(live, want *unstructured.Unstructured) string {
	now := fluxobj.Text(live, "spec", "approvePlan")
	built := fluxobj.Text(want, "spec", "approvePlan")
	if !fluxobj.SameSource(live, want) {
		return built
	}
	switch {
	case s.Approval == ApprovalManual && now != "" && hasOpenApproval(live):
		return now
	case built == approveAuto && s.Drift == DriftReport && (now == approveNone || s.isApplied(live)):
		return approveNone // it has been applied: from now on only compare
	}
	return built
}

// hasOpenApproval reports whether an approval has yet to be carried out.
func hasOpenApproval(live *unstructured.Unstructured) bool {
	return fluxobj.Text(live, "spec", "approvePlan") == fluxobj.Text(live, "status", "plan", "pending") && !gateOf(live).isRefused(live)
}

// stoppedSpec also revokes the approval of a plan (T4).
func (s Spec) stoppedSpec(live *unstructured.Unstructured) map[string]any {
	approve := fluxobj.Text(live, "spec", "approvePlan")
	if approve != approveAuto && approve != approveNone {
		approve = ""
	}
	return map[string]any{"suspend": true, "approvePlan": approve}
}

// endingSpec ensures the source first (T1).
func (s Spec) endingSpec(ctx context.Context, c fluxobj.Client, live, source, main *unstructured.Unstructured) (map[string]any, error) {
	source, _, err := c.Ensure(ctx, source)
	if err != nil {
		return nil, err
	}
	how := map[string]any{}
	for _, field := range []string{"path", "vars", "varsFrom", "destroyResourcesOnDeletion"} {
		now, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", field)
		want, _, _ := unstructured.NestedFieldNoCopy(main.Object, "spec", field)
		if !fluxobj.CoversValue(now, want) {
			how[field] = want
		}
	}
	if live.GetDeletionTimestamp() == nil {
		leaves := text.Clip(strings.Join(s.Leaves, "\n"), maxLeaves)
		if len(how) == 0 && live.GetAnnotations()[annotationLeaves] == leaves {
			return nil, nil
		}
		maps.Copy(how, s.stoppedSpec(live)) // or it would run once more
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationLeaves: leaves}}, "spec": how}, nil
	}
	hooks, _, _ := unstructured.NestedSlice(live.Object, "spec", "webhooks")
	asked := s.workInfo().requestValue(source)
	if !fluxobj.Suspended(live) && len(hooks) == 0 && len(how) == 0 && live.GetAnnotations()[fluxobj.AnnotationRequest] == asked {
		return nil, nil
	}
	how["suspend"] = false
	how["webhooks"] = nil // deletion is wanted, whatever the plan
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{fluxobj.AnnotationRequest: asked}}, "spec": how}, nil
}

// outputsIn reads the Secret of the outputs, or returns nil if there is none.
func (s Spec) outputsIn(ctx context.Context, c client.Client) (*corev1.Secret, error) {
	if s.OutputsSecret == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.OutputsSecret}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, err
}

// removeRest removes the outputs' Secret, if tofu-controller wrote it.
func (s Spec) removeRest(ctx context.Context, c fluxobj.Client) (gone bool, err error) {
	secret, err := s.outputsIn(ctx, c.Client)
	if err != nil || secret == nil {
		return err == nil, err
	}
	if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == terraformKind && o.Name == s.Name }) {
		return true, nil
	}
	return true, client.IgnoreNotFound(c.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
}

// Outputs returns the outputs in the run's Secret, or nil if there is none.
func (e *Executor) Outputs(ctx context.Context, s Spec) (map[string]Output, error) {
	secret, err := s.outputsIn(ctx, e.Client)
	if err != nil || secret == nil {
		return nil, err
	}
	return ReadOutputs(secret.Data)
}

// Output is an output value of a run. It is not known here whether it is sensitive.
type Output struct {
	Type  json.RawMessage // as OpenTofu writes types: "string", ["list","string"]
	Value json.RawMessage
}

// Text returns a string as it is, and any other value as JSON.
func (o Output) Text() string {
	var s string
	if string(o.Type) == typeString && json.Unmarshal(o.Value, &s) == nil {
		return s
	}
	return string(o.Value)
}

const typeString = `"string"`

// typeSuffix marks the key that holds the type of an output that is not a string.
const typeSuffix = "__type"

// ReadOutputs reads tofu-controller's Secret (T6): a string as it is, another value as JSON, with
// its type under NAME__type.
func ReadOutputs(data map[string][]byte) (map[string]Output, error) {
	all := map[string]Output{}
	for name, value := range data {
		if of, is := strings.CutSuffix(name, typeSuffix); is && data[of] != nil {
			continue
		}
		o := Output{Type: json.RawMessage(typeString)}
		var err error
		if kind, is := data[name+typeSuffix]; !is {
			o.Value, err = json.Marshal(string(value))
		} else if o.Type, err = compactJSON(kind); err == nil {
			o.Value, err = compactJSON(value)
		}
		if err != nil {
			return nil, fmt.Errorf("output %s is neither a string nor JSON with its type", name) // without the value, which may be secret
		}
		all[name] = o
	}
	return all, nil
}

func compactJSON(text []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	return b.Bytes(), err
}
