// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Executors of a template.
const (
	ExecutorTerraform = "FluxTerraform"
	ExecutorHelm      = "FluxHelm"
)

// TemplateSpec is the template block of okara serve, field for field, and the chart of
// FluxHelm. Strings in inputs and connection are expressions, as in okara serve.
// +kubebuilder:validation:XValidation:rule="has(self.module) == (self.executor == 'FluxTerraform') && has(self.chart) == (self.executor == 'FluxHelm')",message="FluxTerraform requires module, FluxHelm requires chart"
// +kubebuilder:validation:XValidation:rule="!has(self.pool) || !has(self.parameters) && self.approval.mode == 'None'",message="a pool excludes parameters and approval, since its members are created in advance"
type TemplateSpec struct {
	// Title that users see instead of the name.
	// +kubebuilder:validation:MaxLength=100
	Title string `json:"title,omitempty"`

	// Description of its purpose.
	// +kubebuilder:validation:MaxLength=4000
	Description string `json:"description,omitempty"`

	// Name of an icon.
	// +kubebuilder:validation:MaxLength=100
	Icon string `json:"icon,omitempty"`

	// Category on the page of templates, such as aws/network.
	// +kubebuilder:validation:MaxLength=100
	Category string `json:"category,omitempty"`

	// Whether new instances can be launched.
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// Whether it is listed. A hidden template can be launched by name.
	// +kubebuilder:default=true
	Visible *bool `json:"visible,omitempty"`

	// The module that FluxTerraform runs.
	Module *TemplateModule `json:"module,omitempty"`

	// The chart that FluxHelm installs.
	Chart *Chart `json:"chart,omitempty"`

	// Executor: FluxTerraform, which uses tofu-controller, or FluxHelm, which uses helm-controller.
	// +kubebuilder:default=FluxTerraform
	// +kubebuilder:validation:Enum=FluxTerraform;FluxHelm
	Executor string `json:"executor,omitempty"`

	// Who owns an instance.
	// +kubebuilder:default={kind: User}
	// +optional
	Owner TemplateOwner `json:"owner,omitzero"`

	// Globs for the names of groups that may own instances. Empty: every group.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=200
	// +listType=set
	Groups []string `json:"groups,omitempty"`

	// Maximum number of live instances per owner. 0: no limit by the template.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	PerOwner int32 `json:"perOwner,omitempty"`

	// Maximum number of live instances in total. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max,omitempty"`

	// What has to be approved by someone other than the requester.
	// +kubebuilder:default={}
	// +optional
	Approval TemplateApproval `json:"approval,omitzero"`

	// Lifetime of an instance. Empty: according to the operator's settings.
	TTL *TemplateTTL `json:"ttl,omitempty"`

	// Instances that are created in advance.
	Pool *TemplatePool `json:"pool,omitempty"`

	// Inputs that users can set, in the order of the form.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Parameters []TemplateParameter `json:"parameters,omitempty"`

	// Inputs of the module, or values of the chart, that the template sets. A parameter that is used in a chart's values is not set anywhere else.
	Inputs map[string]apiextensions.JSON `json:"inputs,omitempty"`

	// Outputs that an instance shows.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=200
	// +listType=set
	Outputs []string `json:"outputs,omitempty"`

	// How users reach the result.
	Connection *TemplateConnection `json:"connection,omitempty"`

	// Secrets of the operator's namespace whose keys are environment variables of the runs. For a chart: Secrets whose key values.yaml has defaults for the values.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Credentials []string `json:"credentials,omitempty"`

	// Maximum duration of one attempt, 1m to 24h.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="1m to 24h"
	Timeout Duration `json:"timeout,omitempty"`

	// How often a failed attempt is retried.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`

	// Whether owners may protect an instance from expiry.
	Protection bool `json:"protection,omitempty"`

	// How often an instance is checked for drift. Empty: never.
	Drift *TemplateDrift `json:"drift,omitempty"`

	// Manual, or Auto: instances are updated to newer versions automatically.
	// +kubebuilder:default=Manual
	// +kubebuilder:validation:Enum=Manual;Auto
	Update string `json:"update,omitempty"`

	// How long before expiry notices are sent.
	// +kubebuilder:validation:MaxItems=10
	// +listType=set
	Notices []Duration `json:"notices,omitempty"`

	// What an instance costs, for display.
	Cost *TemplateCost `json:"cost,omitempty"`
}

// TemplateOwner says who owns an instance.
// +kubebuilder:validation:XValidation:rule="has(self.claim) == (self.kind == 'Claim')",message="claim is required for kind Claim, and not allowed for other kinds"
type TemplateOwner struct {
	// The requesting User, one of the user's Groups, or all users whose tokens have the same value in a Claim.
	// +kubebuilder:default=User
	// +kubebuilder:validation:Enum=User;Group;Claim
	Kind string `json:"kind,omitempty"`

	// Name of that claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Claim string `json:"claim,omitempty"`
}

// TemplateApproval says what requires approval.
type TemplateApproval struct {
	// What requires an Approval: None, each Request before anything is planned, or each Plan.
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;Request;Plan
	Mode string `json:"mode,omitempty"`
}

// TemplateModule is the module of a template.
type TemplateModule struct {
	// NAMESPACE/NAME/SYSTEM in the registry of the operator.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	Address string `json:"address"`

	// A version, a constraint, or the digest of a version, sha256:HEX. Empty: the highest release.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$|^\s*([=!<>~]*\s*[0-9xX*][0-9A-Za-z.*+-]*\s*(,\s*|$))*$`
	Version string `json:"version,omitempty"`

	// Folder of the root module in the module. Empty: the top folder.
	// +kubebuilder:validation:MaxLength=200
	Path string `json:"path,omitempty"`
}

// Lifetime is a duration, or None: no end.
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^(None|([1-9][0-9]*h)?([1-9][0-9]*m)?([1-9][0-9]*s)?)$`
type Lifetime string

// TemplateTTL is the lifetime of instances.
// +kubebuilder:validation:XValidation:rule="self.default != 'None' || !has(self.max) && !has(self.extend) && !has(self.extends) && !has(self.failed)",message="with default None there is no expiry, and no other field is allowed"
type TemplateTTL struct {
	// Default lifetime, from the time it is ready or claimed. None: it does not expire.
	Default Lifetime `json:"default"`

	// Maximum lifetime, from creation or claim. Empty: unlimited.
	Max Duration `json:"max,omitempty"`

	// How much an owner can extend the lifetime at a time. Empty: not at all.
	Extend Duration `json:"extend,omitempty"`

	// Maximum number of extensions. 0: unlimited.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Extends int32 `json:"extends,omitempty"`

	// How long an instance that failed before it was ever ready is kept.
	Failed Duration `json:"failed,omitempty"`

	// What happens on expiry: Destroy the resources, or Keep them.
	// +kubebuilder:default=Destroy
	// +kubebuilder:validation:Enum=Destroy;Keep
	OnExpire string `json:"onExpire,omitempty"`
}

// TemplatePool configures the instances that are kept ready.
type TemplatePool struct {
	// Number of instances that are kept ready to be claimed. kubectl scale sets it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Size int32 `json:"size"`

	// Maximum number of live instances of the template, including waiting ones. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max,omitempty"`

	// Instances that have waited for longer are replaced.
	MaxAge Duration `json:"maxAge,omitempty"`

	// What happens if the pool is empty: Create creates an instance on demand, Refuse refuses the request.
	// +kubebuilder:default=Create
	// +kubebuilder:validation:Enum=Create;Refuse
	WhenEmpty string `json:"whenEmpty,omitempty"`
}

// TemplateParameter lets users set one input, and may restrict its values.
type TemplateParameter struct {
	// Name of the input.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// Title that users see instead of the name.
	// +kubebuilder:validation:MaxLength=100
	Title string `json:"title,omitempty"`

	// Help text.
	// +kubebuilder:validation:MaxLength=4000
	Help string `json:"help,omitempty"`

	// Default value. Empty: the default of the module.
	Default *apiextensions.JSON `json:"default,omitempty"`

	// Allowed values.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Enum []apiextensions.JSON `json:"enum,omitempty"`

	// A regular expression that a string must match.
	// +kubebuilder:validation:MaxLength=1000
	Pattern string `json:"pattern,omitempty"`

	// The minimum, as a string.
	// +kubebuilder:validation:Pattern=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=40
	Minimum string `json:"minimum,omitempty"`

	// The maximum, as a string.
	// +kubebuilder:validation:Pattern=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=40
	Maximum string `json:"maximum,omitempty"`

	// Whether an update may change it.
	Update bool `json:"update,omitempty"`

	// Whether a link may prefill it. Empty: yes, unless its name suggests a secret.
	Link *bool `json:"link,omitempty"`

	// The parameter applies only if each of these preceding parameters applies and has one of the values. Otherwise it has its default. Empty: it always applies.
	// +kubebuilder:validation:MaxProperties=10
	When map[string][]apiextensions.JSON `json:"when,omitempty"`
}

// TemplateConnection tells users how to reach the result.
type TemplateConnection struct {
	// Web, with a URL, or Instructions, with a message.
	// +kubebuilder:default=Web
	// +kubebuilder:validation:Enum=Web;Instructions
	Type string `json:"type,omitempty"`

	// An expression that yields an http or https URL.
	// +kubebuilder:validation:MaxLength=4096
	URL string `json:"url,omitempty"`

	// An expression that yields the message.
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// TemplateDrift says how often an instance is checked for drift.
type TemplateDrift struct {
	// Interval, at least 10m.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m')",message="must be at least 10m"
	Every Duration `json:"every"`

	// Whether drift is reverted.
	Remediate bool `json:"remediate,omitempty"`
}

// TemplateCost is the displayed cost.
type TemplateCost struct {
	// Cost per hour, as a string.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=20
	Hourly string `json:"hourly"`

	// Currency code, such as EUR.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
}

// TemplateStatus is the status of a template.
type TemplateStatus struct {
	// Generation that this status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled, as defined by kstatus. Ready: instances can be launched.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Address of the module, or URL of the chart.
	Source string `json:"source,omitempty"`

	// Version that a launch currently gets.
	Version string `json:"version,omitempty"`

	// Digest of that version.
	Digest string `json:"digest,omitempty"`

	// Digest of the template itself, by which instances identify it.
	Template string `json:"template,omitempty"`

	// JSON Schema of the module's inputs, which validates parameters; up to 32 KiB.
	// +kubebuilder:pruning:PreserveUnknownFields
	Inputs *apiextensions.JSON `json:"inputs,omitempty"`

	// Outputs of the module, and whether each is sensitive.
	Outputs map[string]bool `json:"outputs,omitempty"`

	// Versions that a launch may name, highest first, and the default one.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	Versions []TemplateVersion `json:"versions,omitempty"`

	// The pool.
	Pool *PoolStatus `json:"pool,omitempty"`
}

// TemplateVersion is a version that the template allows.
type TemplateVersion struct {
	// The version.
	Version string `json:"version"`

	// Digest of its manifest.
	Digest string `json:"digest"`

	// Digest of the module's zip archive.
	Archive string `json:"archive,omitempty"`

	// Size of the zip archive in bytes.
	Size int64 `json:"size,omitempty"`
}

// PoolStatus is the status of a pool.
type PoolStatus struct {
	// Number of instances that are ready to be claimed.
	Available int32 `json:"available"`

	// Number of instances that are being created for the pool.
	Coming int32 `json:"coming"`

	// Number of instances of the pool that were claimed.
	Claimed int32 `json:"claimed"`

	// Why no instances are created for the pool. Empty: it is not paused.
	Paused string `json:"paused,omitempty"`

	// Number of consecutive instances that failed.
	Failures int32 `json:"failures,omitempty"`

	// No instance is created for the pool before this time.
	Backoff *metav1.Time `json:"backoff,omitempty"`

	// Digests of the sources of the newest instances.
	Revision string `json:"revision,omitempty"`
}

// Template defines what users can launch. The object NAMESPACE.NAME is the template NAMESPACE/NAME. Only Templates in the namespace for instances are processed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.pool.size,statuspath=.status.pool.available
// +kubebuilder:resource:shortName=oktpl,categories=okara-all
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?[.][a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$') && !self.metadata.name.startsWith('tfe.')",message="the name of a Template must be NAMESPACE.NAME, each of at most 40 characters a-z, 0-9 and single dashes; tfe is reserved"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Pool",type=integer,JSONPath=`.spec.pool.size`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.pool.available`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Template struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TemplateSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status TemplateStatus `json:"status,omitempty"`
}

// TemplateList is a list of Templates.
//
// +kubebuilder:object:root=true
type TemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Template `json:"items"`
}
