// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
)

// userLabel is the prefix that labels of an object get on the objects of its run.
const userLabel = "apps.okara.dev-"

// Registry says where modules are, and the Secrets of definitions.
type Registry struct {
	Host      string      // HOST[:PORT]
	Layout    addr.Layout // of its repositories
	PlainHTTP bool
	Namespace string // of the operator
}

// Repository is the repository of a definition's module, HOST[:PORT]/NAME.
func (r Registry) Repository(m v1alpha1.KindModule) (string, error) {
	if m.Repository != "" {
		return r.Host + "/" + m.Repository, nil
	}
	a, err := addr.ParseModule(m.Address)
	if err != nil {
		return "", err
	}
	return r.Host + "/" + r.Layout.Module(a), nil
}

// Wanted returns the run that an object asks for, of its status's version, else the definition's.
func (r Registry) Wanted(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (kindrun.Wanted, error) {
	w := kindrun.Wanted{Address: def.Spec.Module.Address, Run: runOf(def)}
	version := Running(o)
	if version == nil {
		version = def.Status.Module
	}
	if version == nil {
		return w, fieldf("status.module", "no version of the module was chosen yet")
	}
	repository, err := r.Repository(def.Spec.Module)
	if err != nil {
		return w, fieldf("spec.module.address", "%v", err)
	}
	w.Run.Module = fluxexec.Module{
		Repository: repository, Digest: version.Digest, Version: version.Version, Path: Folder(def.Spec.Module.Path), PlainHTTP: r.PlainHTTP,
	}
	w.Run.Labels = runLabels(def, o)
	if err := (&filler{&w, def, o, r.Namespace}).fillInputs(); err != nil {
		return w, err
	}
	if asks := VersionAsked(o); asks != "" && asks != version.Version {
		return w, fieldf("spec."+RunField+".version", "version %s is not published, or the definition does not allow it: it allows %q", asks, def.Spec.Module.Version)
	}
	return w, applyOptions(&w.Run, o)
}

// Running is the version that an object runs, nil if none was chosen yet.
func Running(o *unstructured.Unstructured) *v1alpha1.ResolvedModule {
	version, _, _ := unstructured.NestedString(o.Object, "status", "module", "version")
	digest, _, _ := unstructured.NestedString(o.Object, "status", "module", "digest")
	if version == "" || digest == "" {
		return nil
	}
	return &v1alpha1.ResolvedModule{Version: version, Digest: digest}
}

// VersionAsked is the version that an object asks for, or "".
func VersionAsked(o *unstructured.Unstructured) string {
	version, _, _ := unstructured.NestedString(o.Object, "spec", RunField, "version")
	return version
}

// runOf returns what the definition sets for all runs.
func runOf(def *v1alpha1.ModuleKind) fluxexec.Spec {
	run := def.Spec.Run
	s := fluxexec.Spec{
		ServiceAccountName: run.ServiceAccountName, Approval: approvalOf(run.Approval), Drift: fluxexec.Drift(run.Drift),
		Interval: lengthOf(run.Interval), LockTimeout: lengthOf(run.LockTimeout), Retries: int(run.Retries),
		Keep: def.Spec.Deletion.Destroy != nil && !*def.Spec.Deletion.Destroy,
	}
	for _, name := range def.Spec.Outputs.Include {
		s.Outputs = append(s.Outputs, string(name))
	}
	for _, h := range run.HealthChecks {
		check := fluxexec.HealthCheck{Name: h.Name, Type: "http", URL: h.URL, Timeout: lengthOf(h.Timeout)}
		if h.Address != "" {
			check.Type = "tcp"
			check.Address = h.Address
		}
		s.HealthChecks = append(s.HealthChecks, check)
	}
	if r := run.Runner; r != nil {
		s.Runner = &fluxexec.Runner{Image: r.Image, NodeSelector: r.NodeSelector, Tolerations: r.Tolerations, Resources: r.Resources}
		for _, env := range r.Env {
			s.Runner.Env = append(s.Runner.Env, corev1.EnvVar{Name: env.Name, Value: env.Value})
		}
	}
	return s
}

func approvalOf(a v1alpha1.RunApproval) fluxexec.Approval {
	if a.Mode == v1alpha1.ApprovalPlan {
		return fluxexec.ApprovalManual
	}
	return fluxexec.ApprovalAuto
}

func lengthOf(d *v1alpha1.Duration) metav1.Duration { return metav1.Duration{Duration: d.Length()} }

// runLabels returns the labels of a run's objects, without the two that name the owner.
func runLabels(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for key, value := range o.GetLabels() {
		if key = userLabel + key; len(validation.IsQualifiedName(key)) == 0 {
			all[key] = value
		}
	}
	maps.Copy(all, def.Spec.Run.Labels)
	all[v1alpha1.LabelKind] = def.Spec.Names.Kind
	all[v1alpha1.LabelObject] = o.GetName()
	return all
}

func applyOptions(s *fluxexec.Spec, o *unstructured.Unstructured) error {
	run, _, err := unstructured.NestedMap(o.Object, "spec", RunField)
	if err != nil {
		return fieldf("spec."+RunField, "%v", err)
	}
	s.Suspend = run["suspend"] == true
	if drift := stringOf(run, "drift"); drift != "" {
		s.Drift = fluxexec.Drift(drift)
	}
	return nil
}
