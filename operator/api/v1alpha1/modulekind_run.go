// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// KindRun says how the module runs for each object.
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__) && has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix and namespace cannot change, since objects run under these names: make another ModuleKind"
type KindRun struct {
	// What the names of the objects of Flux begin with. An object's own name follows, and both together have at most 53 characters.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z][0-9a-z-]*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// Dedicated: each object runs in a namespace of its own, okara-run-<uid>. Object: in its namespace, whose editors then read each plan and state token.
	// +kubebuilder:default=Dedicated
	// +optional
	Namespace RunNamespace `json:"namespace,omitempty"`

	// Time between two looks at what was made.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="1m and more"
	// +optional
	Interval *Duration `json:"interval,omitempty"`

	// What of a run waits for an Approval.
	// +kubebuilder:default={}
	// +optional
	Approval RunApproval `json:"approval,omitzero"`

	// Service account of the runner. Default okara-runner.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[0-9a-z]([0-9a-z.-]*[0-9a-z])?$`
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Annotations of that account, where the operator makes it: a role at a cloud, say.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="annotations okara.dev/ are the operator's"
	// +optional
	AccountAnnotations map[string]string `json:"accountAnnotations,omitempty"`

	// Labels of the objects of Flux.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="labels okara.dev/ are the operator's"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// The pod in which the module runs.
	// +optional
	Runner *Runner `json:"runner,omitempty"`

	// Inputs whose values are in Secrets of the operator's namespace. They win over what an object says.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	VarsFrom []InputsFrom `json:"varsFrom,omitempty"`

	// What happens to resources that were changed outside of okara: Repair changes them back, Report says so, Ignore does not look.
	// +kubebuilder:default=Repair
	// +optional
	Drift RunDrift `json:"drift,omitempty"`

	// Encryption of states and plans by OpenTofu.
	// +optional
	Encryption *RunEncryption `json:"encryption,omitempty"`

	// How long a run waits for the lock of the state.
	// +optional
	LockTimeout *Duration `json:"lockTimeout,omitempty"`

	// How often a run that failed is tried again, until something changes. 0: without a bound.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// What has to answer once a run is done.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +optional
	HealthChecks []HealthCheck `json:"healthChecks,omitempty"`
}

// RunNamespace says in which namespace an object runs.
// +kubebuilder:validation:Enum=Dedicated;Object
type RunNamespace string

// NamespaceObject runs an object in the namespace of that object.
const NamespaceObject RunNamespace = "Object"

// RunApproval says whether plans wait.
type RunApproval struct {
	// What waits for an Approval: None, or each Plan.
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;Plan
	// +optional
	Mode string `json:"mode,omitempty"`
}

// RunDrift says what happens to resources that were changed outside of okara.
// +kubebuilder:validation:Enum=Repair;Report;Ignore
type RunDrift string

// Runner is the pod in which a module runs.
type Runner struct {
	// Image of the runner. Default the one of tofu-controller.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// Labels of the nodes on which it runs.
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Taints that it bears.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// What it may use.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Its environment, besides what reaches the state. Secrets belong into varsFrom.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []EnvVar `json:"env,omitempty"`
}

// EnvVar is a variable of the environment.
type EnvVar struct {
	// Name of the variable. Those of the state are the operator's.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][0-9A-Za-z_]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('TF_HTTP_') && self != 'TF_ENCRYPTION'",message="the operator sets TF_HTTP_… and TF_ENCRYPTION"
	Name string `json:"name"`

	// Its value.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Value string `json:"value,omitempty"`
}

// InputsFrom are inputs whose values a Secret has.
type InputsFrom struct {
	// The Secret, in the namespace of the operator. Its annotation okara.dev/use names input:PLURAL.
	SecretRef SecretRef `json:"secretRef"`

	// Which key has which input, by the name of the input.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=50
	Keys map[string]SecretKey `json:"keys"`
}

// SecretKey is a key of a Secret.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[0-9A-Za-z._-]+$`
type SecretKey string

// RunEncryption names the configuration of OpenTofu's encryption.
type RunEncryption struct {
	// A Secret in the namespace of the operator, whose key config becomes TF_ENCRYPTION. Its annotation okara.dev/use names input:PLURAL.
	SecretRef SecretRef `json:"secretRef"`
}

// HealthCheck is something that has to answer.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.address)",message="exactly one of url and address"
type HealthCheck struct {
	// Name of the check.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// URL that has to answer. {{.NAME}} stands for an output.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	// +optional
	URL string `json:"url,omitempty"`

	// In place of a URL, HOST:PORT that has to accept a connection. {{.NAME}} stands for an output.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	// +optional
	Address string `json:"address,omitempty"`

	// How long it may take.
	// +kubebuilder:default="20s"
	// +optional
	Timeout *Duration `json:"timeout,omitempty"`
}
