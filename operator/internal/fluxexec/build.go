// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Values of approvePlan of a Terraform other than the ID of a plan.
const (
	approveAuto = "auto"
	approveNone = "disable"
)

// rarely is an interval so long that it practically never ends.
const rarely = 365 * 24 * time.Hour

func (s Spec) buildObjects() (source, main any, err error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	vars, err := s.listVars()
	if err != nil {
		return nil, nil, err
	}
	return s.sourceObject(), s.terraformObject(vars), nil
}

func (s *Spec) sourceObject() *sourcev1.OCIRepository {
	return &sourcev1.OCIRepository{
		TypeMeta:   metav1.TypeMeta{APIVersion: fluxobj.SourceVersion, Kind: fluxobj.OCIKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: fluxobj.Labels(s.Labels, s.UID)},
		Spec: sourcev1.OCIRepositorySpec{
			URL:                ociScheme + strings.TrimSuffix(s.Module.Repository, "/"),
			Reference:          &sourcev1.OCIRepositoryRef{Digest: s.Module.Digest},
			LayerSelector:      &sourcev1.OCILayerSelector{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Operation: sourcev1.OCILayerCopy},
			Interval:           metav1.Duration{Duration: 24 * time.Hour}, // a digest never changes
			SecretRef:          nameOf(s.Module.PullSecret),
			CertSecretRef:      nameOf(s.Module.CASecret),
			Insecure:           s.Module.PlainHTTP,
			Verify:             s.Module.Verify.object(),
			Provider:           s.Module.Provider,
			ServiceAccountName: s.Module.ServiceAccountName,
		},
	}
}

func (v *Verify) object() *sourcev1.OCIRepositoryVerification {
	if v == nil {
		return nil
	}
	return &sourcev1.OCIRepositoryVerification{Provider: "cosign", SecretRef: nameOf(v.Secret), MatchOIDCIdentity: v.Identities}
}

func (s *Spec) terraformObject(vars []tfVar) *terraform {
	spec := terraformSpec{
		Interval:                   s.Interval,
		RetryInterval:              s.RetryInterval,
		Path:                       s.Module.Path,
		Suspend:                    s.Suspend,
		DestroyResourcesOnDeletion: !s.Keep,
		ServiceAccountName:         s.ServiceAccountName,
		SourceRef:                  sourceRef{Kind: fluxobj.OCIKind, Name: s.Name},
		Vars:                       vars,
		Remediation:                remediation{s.Retries},
		WriteOutputsToSecret:       outputs{s.OutputsSecret, s.Outputs},
		HealthChecks:               s.HealthChecks,
		TFState:                    tfState{LockIdentifier: s.ForceUnlock, LockTimeout: s.LockTimeout},
		BackendConfig:              backendConfig{CustomConfiguration: s.State.backendBlock()},
		RunnerPodTemplate:          s.podTemplate(),
	}
	spec.Interval.Duration = cmp.Or(spec.Interval.Duration, 10*time.Minute)
	s.setApproval(&spec)
	for _, from := range s.VariablesFrom {
		spec.VarsFrom = append(spec.VarsFrom, from.object())
	}
	if s.CLIConfigSecret != "" {
		spec.CLIConfigSecretRef = corev1.SecretReference{Name: s.CLIConfigSecret, Namespace: s.Namespace}
	}
	if s.ForceUnlock != "" {
		spec.TFState.ForceUnlock = "yes"
	}
	return &terraform{
		metav1.TypeMeta{APIVersion: terraformVersion, Kind: terraformKind},
		metadata{s.Namespace, s.Name, fluxobj.Labels(s.Labels, s.UID), attemptAnnotation(s.Attempt)}, spec,
	}
}

// setApproval sets how plans are approved. Without tofu-controller's drift detection each run
// plans; with it, one with manual approval would report drift and never plan the repair.
func (s *Spec) setApproval(spec *terraformSpec) {
	switch s.Approval {
	case ApprovalManual:
		spec.ApprovePlan = ""
		spec.StoreReadablePlan = "human"
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
		spec.DisableDriftDetection = true
		spec.Interval.Duration = rarely
	}
}

func (v VariablesFrom) object() varsFrom {
	from := varsFrom{Kind: "Secret", Name: v.Secret}
	if v.ConfigMap != "" {
		from.Kind = "ConfigMap"
		from.Name = v.ConfigMap
	}
	for _, name := range slices.Sorted(maps.Keys(v.Keys)) {
		from.VarsKeys = append(from.VarsKeys, v.Keys[name]+":"+name)
	}
	return from
}

// listVars returns the variables in the order of their names.
func (s *Spec) listVars() ([]tfVar, error) {
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

// podTemplate returns the zero value if the runner is the default one of tofu-controller.
func (s *Spec) podTemplate() runnerPodTemplate {
	var spec Runner
	if s.Runner != nil {
		spec = *s.Runner
	}
	env := s.State.backendEnv()
	if key := s.Encryption; key != nil {
		env = append(env, fromSecret("TF_ENCRYPTION", key.Secret, key.Key))
	}
	spec.Env = append(env, spec.Env...)
	return runnerPodTemplate{spec}
}

// backendBlock returns the HCL of the state; [State.check] accepts no address that breaks out.
func (s State) backendBlock() string {
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

// backendEnv returns the environment variables that the http backend reads.
func (s State) backendEnv() []corev1.EnvVar {
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
