// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type meta struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        objectMeta `json:"metadata"`
}

type objectMeta struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// ociRepository is source-controller's v1.
type ociRepository struct {
	meta `json:",inline"`
	Spec ociRepositorySpec `json:"spec"`
}

type ociRepositorySpec struct {
	URL           string          `json:"url"`
	Ref           ociRef          `json:"ref"`
	LayerSelector layerSelector   `json:"layerSelector"`
	Interval      metav1.Duration `json:"interval"`
	SecretRef     *nameRef        `json:"secretRef,omitempty"`
	CertSecretRef *nameRef        `json:"certSecretRef,omitempty"`
	Insecure      bool            `json:"insecure,omitempty"`
}

type ociRef struct {
	Digest string `json:"digest"`
}

type layerSelector struct {
	MediaType string `json:"mediaType"`
	Operation string `json:"operation"`
}

type nameRef struct {
	Name string `json:"name"`
}

// terraform is tofu-controller's v1alpha2.
type terraform struct {
	meta `json:",inline"`
	Spec terraformSpec `json:"spec"`
}

type terraformSpec struct {
	Interval                   metav1.Duration    `json:"interval"`
	Path                       string             `json:"path,omitempty"`
	ApprovePlan                string             `json:"approvePlan"`
	DestroyResourcesOnDeletion bool               `json:"destroyResourcesOnDeletion"`
	DisableDriftDetection      bool               `json:"disableDriftDetection,omitempty"`
	ServiceAccountName         string             `json:"serviceAccountName,omitempty"`
	SourceRef                  sourceRef          `json:"sourceRef"`
	Vars                       []tfVar            `json:"vars,omitempty"`
	VarsFrom                   []varsFrom         `json:"varsFrom,omitempty"`
	CLIConfigSecretRef         *secretReference   `json:"cliConfigSecretRef,omitempty"`
	Remediation                *remediation       `json:"remediation,omitempty"`
	WriteOutputsToSecret       *outputs           `json:"writeOutputsToSecret,omitempty"`
	BackendConfig              backendConfig      `json:"backendConfig"`
	RunnerPodTemplate          *runnerPodTemplate `json:"runnerPodTemplate,omitempty"`
}

type sourceRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type tfVar struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type varsFrom struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	VarsKeys []string `json:"varsKeys"` // KEY:VARIABLE
}

type secretReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type remediation struct {
	Retries int `json:"retries"`
}

type outputs struct {
	Name    string   `json:"name"`
	Outputs []string `json:"outputs,omitempty"`
}

type backendConfig struct {
	CustomConfiguration string `json:"customConfiguration"`
}

type runnerPodTemplate struct {
	Spec runnerPodSpec `json:"spec"`
}

type runnerPodSpec struct {
	Env []corev1.EnvVar `json:"env"`
}

func podTemplate(env []corev1.EnvVar) *runnerPodTemplate {
	if len(env) == 0 {
		return nil
	}
	return &runnerPodTemplate{Spec: runnerPodSpec{Env: env}}
}
