// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attemptAnnotation returns the annotation of an attempt, or nil if the work has no attempts.
func attemptAnnotation(name string) map[string]string {
	if name == "" {
		return nil
	}
	return map[string]string{AnnotationAttempt: name}
}

// nameOf names an object of the same namespace, or none if it is "".
func nameOf(name string) *meta.LocalObjectReference {
	if name == "" {
		return nil
	}
	return &meta.LocalObjectReference{Name: name}
}

// terraform is a Terraform, tofu-controller's v1alpha2.
type terraform struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata      `json:"metadata"`
	Spec            terraformSpec `json:"spec"`
}

// metadata holds the fields of an object's metadata that are written.
type metadata struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type terraformSpec struct {
	Interval                   metav1.Duration        `json:"interval"`
	RetryInterval              metav1.Duration        `json:"retryInterval,omitzero"`
	Path                       string                 `json:"path,omitempty"`
	Suspend                    bool                   `json:"suspend"` // written out, or an apply would not undo it
	ApprovePlan                string                 `json:"approvePlan"`
	StoreReadablePlan          string                 `json:"storeReadablePlan,omitempty"`
	Webhooks                   []webhook              `json:"webhooks,omitempty"`
	DestroyResourcesOnDeletion bool                   `json:"destroyResourcesOnDeletion"`
	DisableDriftDetection      bool                   `json:"disableDriftDetection,omitempty"`
	ServiceAccountName         string                 `json:"serviceAccountName,omitempty"`
	SourceRef                  sourceRef              `json:"sourceRef"`
	Vars                       []tfVar                `json:"vars,omitempty"`
	VarsFrom                   []varsFrom             `json:"varsFrom,omitempty"`
	CLIConfigSecretRef         corev1.SecretReference `json:"cliConfigSecretRef,omitzero"`
	Remediation                remediation            `json:"remediation,omitzero"`
	WriteOutputsToSecret       outputs                `json:"writeOutputsToSecret,omitzero"`
	HealthChecks               []HealthCheck          `json:"healthChecks,omitempty"`
	TFState                    tfState                `json:"tfstate,omitzero"`
	BackendConfig              backendConfig          `json:"backendConfig"`
	RunnerPodTemplate          runnerPodTemplate      `json:"runnerPodTemplate,omitzero"`
}

type webhook struct {
	Stage                string `json:"stage"`
	URL                  string `json:"url"`
	PayloadType          string `json:"payloadType"`
	TestExpression       string `json:"testExpression"`
	ErrorMessageTemplate string `json:"errorMessageTemplate"`
}

type tfState struct {
	ForceUnlock    string          `json:"forceUnlock,omitempty"`
	LockIdentifier string          `json:"lockIdentifier,omitempty"`
	LockTimeout    metav1.Duration `json:"lockTimeout,omitzero"`
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
	Spec Runner `json:"spec"`
}
