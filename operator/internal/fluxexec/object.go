// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// terraform is tofu-controller's v1alpha2.
type terraform struct {
	fluxobj.Meta `json:",inline"`
	Spec         terraformSpec `json:"spec"`
}

type terraformSpec struct {
	Interval                   metav1.Duration    `json:"interval"`
	RetryInterval              *metav1.Duration   `json:"retryInterval,omitempty"`
	Path                       string             `json:"path,omitempty"`
	Suspend                    bool               `json:"suspend"` // written out, or who applies the object would not undo it
	ApprovePlan                string             `json:"approvePlan"`
	StoreReadablePlan          string             `json:"storeReadablePlan,omitempty"`
	Webhooks                   []webhook          `json:"webhooks,omitempty"`
	DestroyResourcesOnDeletion bool               `json:"destroyResourcesOnDeletion"`
	DisableDriftDetection      bool               `json:"disableDriftDetection,omitempty"`
	ServiceAccountName         string             `json:"serviceAccountName,omitempty"`
	SourceRef                  sourceRef          `json:"sourceRef"`
	Vars                       []tfVar            `json:"vars,omitempty"`
	VarsFrom                   []varsFrom         `json:"varsFrom,omitempty"`
	CLIConfigSecretRef         *secretReference   `json:"cliConfigSecretRef,omitempty"`
	Remediation                *remediation       `json:"remediation,omitempty"`
	WriteOutputsToSecret       *outputs           `json:"writeOutputsToSecret,omitempty"`
	HealthChecks               []healthCheck      `json:"healthChecks,omitempty"`
	TFState                    *tfState           `json:"tfstate,omitempty"`
	BackendConfig              backendConfig      `json:"backendConfig"`
	RunnerPodTemplate          *runnerPodTemplate `json:"runnerPodTemplate,omitempty"`
}

type webhook struct {
	Stage                string `json:"stage"`
	URL                  string `json:"url"`
	PayloadType          string `json:"payloadType"`
	TestExpression       string `json:"testExpression"`
	ErrorMessageTemplate string `json:"errorMessageTemplate"`
}

type healthCheck struct {
	Name    string           `json:"name"`
	Type    string           `json:"type"`
	Address string           `json:"address,omitempty"`
	URL     string           `json:"url,omitempty"`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

type tfState struct {
	ForceUnlock    string           `json:"forceUnlock,omitempty"`
	LockIdentifier string           `json:"lockIdentifier,omitempty"`
	LockTimeout    *metav1.Duration `json:"lockTimeout,omitempty"`
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
	Image        string                       `json:"image,omitempty"`
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	Env          []corev1.EnvVar              `json:"env,omitempty"`
}
