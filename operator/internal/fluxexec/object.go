// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// head is the common beginning of all objects.
type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
}

// metadata holds the fields of an object's metadata that are written.
type metadata struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// headOf returns the head of an object of a run, with its labels.
func headOf(apiVersion, kind, namespace, name string, labels map[string]string) head {
	return head{metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, metadata{Namespace: namespace, Name: name, Labels: labels}}
}

// attempt returns the annotation of an attempt, or nil if the work has no attempts.
func attempt(name string) map[string]string {
	if name == "" {
		return nil
	}
	return map[string]string{AnnotationAttempt: name}
}

// nameRef names an object of the same namespace, or none if it is zero.
type nameRef struct {
	Name string `json:"name"`
}

// ociRepository is an OCIRepository, source-controller's v1.
type ociRepository struct {
	head `json:",inline"`
	Spec ociSpec `json:"spec"`
}

type ociSpec struct {
	URL           string          `json:"url"`
	Ref           ociRef          `json:"ref"`
	LayerSelector layerSelector   `json:"layerSelector"`
	Interval      metav1.Duration `json:"interval"`
	SecretRef     nameRef         `json:"secretRef,omitzero"`
	CertSecretRef nameRef         `json:"certSecretRef,omitzero"`
	Insecure      bool            `json:"insecure,omitempty"`
	Verify        verify          `json:"verify,omitzero"`
	Provider      string          `json:"provider,omitempty"`
	Account       string          `json:"serviceAccountName,omitempty"`
}

type ociRef struct {
	Digest string `json:"digest,omitempty"`
	Semver string `json:"semver,omitempty"`
}

type layerSelector struct {
	MediaType string `json:"mediaType"`
	Operation string `json:"operation"`
}

type verify struct {
	Provider   string     `json:"provider"`
	SecretRef  nameRef    `json:"secretRef,omitzero"`
	Identities []Identity `json:"matchOIDCIdentity,omitempty"`
}

// httpRepository is a HelmRepository, source-controller's v1.
type httpRepository struct {
	head `json:",inline"`
	Spec httpSpec `json:"spec"`
}

type httpSpec struct {
	URL       string          `json:"url"`
	Interval  metav1.Duration `json:"interval"`
	SecretRef nameRef         `json:"secretRef,omitzero"`
}

// gitRepository is a GitRepository, source-controller's v1.
type gitRepository struct {
	head `json:",inline"`
	Spec gitSpec `json:"spec"`
}

type gitSpec struct {
	URL       string          `json:"url"`
	Interval  metav1.Duration `json:"interval"`
	Ref       gitRef          `json:"ref"`
	SecretRef nameRef         `json:"secretRef,omitzero"`
}

type gitRef struct {
	Branch string `json:"branch,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Semver string `json:"semver,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// terraform is a Terraform, tofu-controller's v1alpha2.
type terraform struct {
	head `json:",inline"`
	Spec terraformSpec `json:"spec"`
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
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
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

// release is a HelmRelease, helm-controller's v2.
type release struct {
	head `json:",inline"`
	Spec releaseSpec `json:"spec"`
}

type releaseSpec struct {
	Interval           metav1.Duration `json:"interval"`
	Timeout            metav1.Duration `json:"timeout,omitzero"`
	Suspend            bool            `json:"suspend"`
	Chart              chartTemplate   `json:"chart,omitzero"`
	ChartRef           sourceRef       `json:"chartRef,omitzero"`
	ServiceAccountName string          `json:"serviceAccountName"`
	ReleaseName        string          `json:"releaseName"`
	TargetNamespace    string          `json:"targetNamespace"`
	StorageNamespace   string          `json:"storageNamespace"`
	Install            action          `json:"install"`
	Upgrade            action          `json:"upgrade"`
	DriftDetection     driftDetection  `json:"driftDetection"`
	Values             json.RawMessage `json:"values"`
	ValuesFrom         []valuesFrom    `json:"valuesFrom,omitempty"`
}

type chartTemplate struct {
	Metadata chartMeta `json:"metadata"`
	Spec     chartSpec `json:"spec"`
}

type chartMeta struct {
	Labels map[string]string `json:"labels,omitempty"`
}

type chartSpec struct {
	Chart             string    `json:"chart"`
	Version           string    `json:"version,omitempty"`
	SourceRef         sourceRef `json:"sourceRef"`
	ReconcileStrategy string    `json:"reconcileStrategy,omitempty"`
}

// httpChart is a HelmChart, source-controller's v1.
type httpChart struct {
	head `json:",inline"`
	Spec httpChartSpec `json:"spec"`
}

type httpChartSpec struct {
	chartSpec `json:",inline"`
	Interval  metav1.Duration `json:"interval"`
}

type action struct {
	Remediation remediation `json:"remediation"`
}

type driftDetection struct {
	Mode string `json:"mode"`
}

type valuesFrom struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	ValuesKey string `json:"valuesKey,omitempty"`
}
