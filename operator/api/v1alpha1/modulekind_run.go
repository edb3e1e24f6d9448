// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// KindRun says how the module runs for each object.
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__) && has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix and namespace are immutable, since objects run under these names: create another ModuleKind"
type KindRun struct {
	// Prefix of the names of the Flux objects. The object's name follows; both together have at most 53 characters.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern=`^[a-z][0-9a-z-]*$`
	Prefix string `json:"prefix,omitempty"`

	// Dedicated: each object runs in its own namespace, okara-run-<uid>. Object: it runs in the object's namespace, whose editors can then read each plan and state token.
	// +kubebuilder:default=Dedicated
	Namespace RunNamespace `json:"namespace,omitempty"`

	// Interval between checks of the created resources.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	Interval *Duration `json:"interval,omitempty"`

	// What requires an Approval.
	// +kubebuilder:default={}
	// +optional
	Approval RunApproval `json:"approval,omitzero"`

	// Service account of the runner. Default okara-runner.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[0-9a-z]([0-9a-z.-]*[0-9a-z])?$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Annotations of the account if the operator creates it, such as a role at a cloud provider.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="annotations with the prefix okara.dev/ are reserved for the operator"
	AccountAnnotations map[string]string `json:"accountAnnotations,omitempty"`

	// Labels of the objects of Flux.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="labels with the prefix okara.dev/ are reserved for the operator"
	Labels map[string]string `json:"labels,omitempty"`

	// The pod in which the module runs.
	Runner *Runner `json:"runner,omitempty"`

	// Inputs with values from Secrets in the operator's namespace. They override those of an object.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	VarsFrom []InputsFrom `json:"varsFrom,omitempty"`

	// What happens if resources were changed outside of okara: Repair reverts the changes, Report reports them, Ignore does not detect them.
	// +kubebuilder:default=Repair
	Drift RunDrift `json:"drift,omitempty"`

	// Encryption of states and plans by OpenTofu.
	Encryption *RunEncryption `json:"encryption,omitempty"`

	// How long a run waits for the lock of the state.
	LockTimeout *Duration `json:"lockTimeout,omitempty"`

	// How often a failed run is retried until something changes. 0: unlimited.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Retries int32 `json:"retries,omitempty"`

	// Endpoints that must respond after a run.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	HealthChecks []HealthCheck `json:"healthChecks,omitempty"`
}

// RunNamespace says in which namespace an object runs.
// +kubebuilder:validation:Enum=Dedicated;Object
type RunNamespace string

// NamespaceObject runs an object in the namespace of that object.
const NamespaceObject RunNamespace = "Object"

// RunApproval says whether plans require approval.
type RunApproval struct {
	// What requires an Approval: None, or each Plan.
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;Plan
	Mode string `json:"mode,omitempty"`
}

// RunDrift says what happens to resources that were changed outside of okara.
// +kubebuilder:validation:Enum=Repair;Report;Ignore
type RunDrift string

// Runner is the pod in which a module runs.
type Runner struct {
	// Image of the runner. Default: the one of tofu-controller.
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// Labels of the nodes on which it runs.
	// +kubebuilder:validation:MaxProperties=20
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the pod.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Resource requirements of the pod.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Environment variables, besides those for the state. Secrets belong in varsFrom.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Env []EnvVar `json:"env,omitempty"`
}

// EnvVar is a variable of the environment.
type EnvVar struct {
	// Name of the variable. Those for the state are reserved.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][0-9A-Za-z_]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('TF_HTTP_') && self != 'TF_ENCRYPTION'",message="the operator sets TF_HTTP_… and TF_ENCRYPTION"
	Name string `json:"name"`

	// Its value.
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// InputsFrom sets inputs from a Secret.
type InputsFrom struct {
	// The Secret, in the namespace of the operator. Its annotation okara.dev/use names input:PLURAL.
	SecretRef SecretRef `json:"secretRef"`

	// Maps the names of inputs to keys of the Secret.
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

// HealthCheck is an endpoint that must respond.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.address)",message="exactly one of url and address"
type HealthCheck struct {
	// Name of the check.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// URL that must respond. {{.NAME}} is replaced by an output.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url,omitempty"`

	// Instead of a URL: HOST:PORT that must accept a connection. {{.NAME}} is replaced by an output.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:MinLength=1
	Address string `json:"address,omitempty"`

	// Timeout.
	// +kubebuilder:default="20s"
	Timeout *Duration `json:"timeout,omitempty"`
}
