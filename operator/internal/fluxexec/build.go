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
)

// Object is one of Flux's, which can be encoded as JSON.
type Object any

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

func (s *Spec) meta(apiVersion, kind string) meta {
	return meta{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		Metadata: objectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels},
	}
}

func (s *Spec) source() *ociRepository {
	return &ociRepository{
		meta: s.meta("source.toolkit.fluxcd.io/v1", "OCIRepository"),
		Spec: ociRepositorySpec{
			URL:           "oci://" + strings.TrimSuffix(s.Module.Repository, "/"),
			Ref:           ociRef{Digest: s.Module.Digest},
			LayerSelector: layerSelector{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Operation: "copy"},
			Interval:      metav1.Duration{Duration: 24 * time.Hour}, // a digest never changes
			SecretRef:     named(s.Module.PullSecret),
			CertSecretRef: named(s.Module.CASecret),
			Insecure:      s.Module.PlainHTTP,
		},
	}
}

func (s *Spec) terraform(vars []tfVar) *terraform {
	spec := terraformSpec{
		Interval:                   s.Interval,
		Path:                       s.Module.Path,
		ApprovePlan:                "auto",
		DestroyResourcesOnDeletion: !s.Keep,
		DisableDriftDetection:      s.Drift == DriftOff,
		ServiceAccountName:         s.ServiceAccountName,
		SourceRef:                  sourceRef{Kind: "OCIRepository", Name: s.Name},
		Vars:                       vars,
		BackendConfig:              backendConfig{CustomConfiguration: s.State.backend()},
		RunnerPodTemplate:          podTemplate(s.State.env()),
	}
	if spec.Interval.Duration == 0 {
		spec.Interval.Duration = 10 * time.Minute
	}
	for _, from := range s.VariablesFrom {
		one := varsFrom{Kind: "Secret", Name: from.Secret}
		for _, name := range slices.Sorted(maps.Keys(from.Keys)) {
			one.VarsKeys = append(one.VarsKeys, from.Keys[name]+":"+name)
		}
		spec.VarsFrom = append(spec.VarsFrom, one)
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
	return &terraform{meta: s.meta("infra.contrib.fluxcd.io/v1alpha2", "Terraform"), Spec: spec}
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
		list = append(list, corev1.EnvVar{Name: "TF_HTTP_PASSWORD", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s.TokenSecret}, Key: "token"},
		}})
	}
	if s.CA != nil {
		list = append(list, corev1.EnvVar{Name: "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: s.CA.ConfigMap}, Key: s.CA.Key},
		}})
	}
	return list
}

func named(name string) *nameRef {
	if name == "" {
		return nil
	}
	return &nameRef{Name: name}
}
