// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Object is one of Flux's, which can be encoded as JSON.
type Object any

// What approvePlan of a Terraform may be beside the id of a plan.
const (
	approveAuto = "auto"
	approveNone = "disable"
)

// rarely is an interval that does not end.
const rarely = 365 * 24 * time.Hour

// Build returns the objects of a run, in the order in which they are made: the source
// first, since a Terraform needs it as long as it lives. Deleting goes the other way,
// and waits for the Terraform to be gone. The error is a [FieldError].
func Build(s Spec) ([]Object, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	vars, err := s.vars()
	if err != nil {
		return nil, err
	}
	return []Object{s.source(), s.terraform(vars)}, nil
}

func (s *Spec) meta(apiVersion, kind string) fluxobj.Meta {
	return fluxobj.Meta{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		Metadata: fluxobj.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: fluxobj.Labels(s.Labels, s.UID)},
	}
}

func (s *Spec) source() *fluxobj.OCIRepository {
	return &fluxobj.OCIRepository{
		Meta: s.meta(fluxobj.SourceVersion, fluxobj.OCIKind),
		Spec: fluxobj.OCIRepositorySpec{
			URL:           "oci://" + strings.TrimSuffix(s.Module.Repository, "/"),
			Ref:           fluxobj.OCIRef{Digest: s.Module.Digest},
			LayerSelector: fluxobj.Copy("application/vnd.cncf.flux.content.v1.tar+gzip"),
			Interval:      metav1.Duration{Duration: 24 * time.Hour}, // a digest never changes
			SecretRef:     fluxobj.Named(s.Module.PullSecret),
			CertSecretRef: fluxobj.Named(s.Module.CASecret),
			Insecure:      s.Module.PlainHTTP,
			Verify:        s.Module.Verify.Object(),
			Provider:      s.Module.Provider,
			Account:       s.Module.ServiceAccountName,
		},
	}
}

// Object is what a source has of it, nil for none.
func (v *Verify) Object() *fluxobj.Verify {
	if v == nil {
		return nil
	}
	o := &fluxobj.Verify{Provider: "cosign", SecretRef: fluxobj.Named(v.Secret)}
	for _, who := range v.Identities {
		o.Identities = append(o.Identities, fluxobj.Identity(who))
	}
	return o
}

func (s *Spec) terraform(vars []tfVar) *terraform {
	spec := terraformSpec{
		Interval:                   s.Interval,
		RetryInterval:              fluxobj.Optional(s.RetryInterval),
		Path:                       s.Module.Path,
		Suspend:                    s.Suspend,
		DestroyResourcesOnDeletion: !s.Keep,
		ServiceAccountName:         s.ServiceAccountName,
		SourceRef:                  sourceRef{Kind: fluxobj.OCIKind, Name: s.Name},
		Vars:                       vars,
		TFState:                    s.tfState(),
		BackendConfig:              backendConfig{CustomConfiguration: s.State.backend()},
		RunnerPodTemplate:          s.podTemplate(),
	}
	if spec.Interval.Duration == 0 {
		spec.Interval.Duration = 10 * time.Minute
	}
	s.approval(&spec)
	for _, from := range s.VariablesFrom {
		spec.VarsFrom = append(spec.VarsFrom, from.object())
	}
	if s.CLIConfigSecret != "" {
		spec.CLIConfigSecretRef = &secretReference{Name: s.CLIConfigSecret, Namespace: s.Namespace}
	}
	if s.Retries > 0 {
		spec.Remediation = &remediation{Retries: s.Retries}
	}
	if s.OutputsSecret != "" {
		spec.WriteOutputsToSecret = &outputs{Name: s.OutputsSecret, Outputs: s.Outputs}
	}
	for _, h := range s.HealthChecks {
		spec.HealthChecks = append(spec.HealthChecks, healthCheck{h.Name, h.Type, h.Address, h.URL, fluxobj.Optional(h.Timeout)})
	}
	o := &terraform{Meta: s.meta(terraformVersion, terraformKind), Spec: spec}
	o.Metadata.Annotations = fluxobj.Attempt(s.Attempt)
	return o
}

// approval says who lets plans be applied, and when one is made. Without tofu-controller's
// look for drift each run plans: with it, a manual one would tell of drift and never plan
// its repair.
func (s *Spec) approval(spec *terraformSpec) {
	switch s.Approval {
	case ApprovalManual:
		spec.ApprovePlan, spec.StoreReadablePlan = "", "human"
		spec.DisableDriftDetection = s.Drift != DriftReport
		if s.Gate != "" {
			spec.Webhooks = []webhook{{
				Stage: "post-planning", URL: s.Gate, PayloadType: "SpecAndPlan",
				TestExpression: "${{ .passed }}", ErrorMessageTemplate: "${{ .message }}",
			}}
		}
	case ApprovalNone:
		spec.ApprovePlan = approveNone
	default:
		spec.ApprovePlan = approveAuto
	}
	if s.Drift == DriftIgnore {
		spec.DisableDriftDetection, spec.Interval.Duration = true, rarely
	}
}

// tfState is nil where tofu-controller's own way with locks does.
func (s *Spec) tfState() *tfState {
	if s.ForceUnlock == "" && s.LockTimeout.Duration == 0 {
		return nil
	}
	state := &tfState{LockTimeout: fluxobj.Optional(s.LockTimeout)}
	if s.ForceUnlock != "" {
		state.ForceUnlock, state.LockIdentifier = "yes", s.ForceUnlock
	}
	return state
}

func (v VariablesFrom) object() varsFrom {
	one := varsFrom{Kind: "Secret", Name: v.Secret}
	if v.ConfigMap != "" {
		one.Kind, one.Name = "ConfigMap", v.ConfigMap
	}
	for _, name := range slices.Sorted(maps.Keys(v.Keys)) {
		one.VarsKeys = append(one.VarsKeys, v.Keys[name]+":"+name)
	}
	return one
}

// vars are the variables in the order of their names.
func (s *Spec) vars() ([]tfVar, error) {
	var list []tfVar
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		var b bytes.Buffer
		if err := json.Compact(&b, s.Variables[name]); err != nil {
			return nil, fieldf("variables."+name, "%v", err)
		}
		list = append(list, tfVar{Name: name, Value: b.Bytes()})
	}
	return list, nil
}

// podTemplate is nil where the runner is as tofu-controller starts it.
func (s *Spec) podTemplate() *runnerPodTemplate {
	spec := runnerPodSpec{Env: s.State.env()}
	if key := s.Encryption; key != nil {
		spec.Env = append(spec.Env, fromSecret("TF_ENCRYPTION", key.Secret, key.Key))
	}
	if r := s.Runner; r != nil {
		spec.Image, spec.NodeSelector, spec.Tolerations, spec.Resources = r.Image, r.NodeSelector, r.Tolerations, r.Resources
		spec.Env = append(spec.Env, r.Env...)
	} else if len(spec.Env) == 0 {
		return nil
	}
	return &runnerPodTemplate{Spec: spec}
}

// backend is the block of HCL that names the state. [State.check] lets no address pass
// that is more than a string there.
func (s State) backend() string {
	login := ""
	if s.TokenSecret != "" {
		login = "  username       = \"okara\"\n"
	}
	return fmt.Sprintf(`backend "http" {
  address        = "%[1]s"
  lock_address   = "%[1]s"
  unlock_address = "%[1]s"
  lock_method    = "LOCK"
  unlock_method  = "UNLOCK"
  retry_max      = 5
%[2]s}
`, s.Address, login)
}

// env is what the http backend reads of its environment.
func (s State) env() []corev1.EnvVar {
	var list []corev1.EnvVar
	if s.TokenSecret != "" {
		list = append(list, fromSecret("TF_HTTP_PASSWORD", s.TokenSecret, "token"))
	}
	if s.CA != nil {
		list = append(list, corev1.EnvVar{Name: "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s.CA.ConfigMap}, Key: s.CA.Key},
		}})
	}
	return list
}

func fromSecret(variable, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}
}
