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
// FluxHelm. Texts of inputs and connection are expressions, as there.
// +kubebuilder:validation:XValidation:rule="has(self.module) == (self.executor == 'FluxTerraform') && has(self.chart) == (self.executor == 'FluxHelm')",message="FluxTerraform runs a module, FluxHelm a chart: name that one"
// +kubebuilder:validation:XValidation:rule="!has(self.pool) || !has(self.parameters) && self.approval.mode == 'None'",message="a pool excludes parameters and approval: its members are made before anybody chooses"
type TemplateSpec struct {
	// Title that users see instead of the name.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Title string `json:"title,omitempty"`

	// What it is for.
	// +kubebuilder:validation:MaxLength=4000
	// +optional
	Description string `json:"description,omitempty"`

	// Name of an icon.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Icon string `json:"icon,omitempty"`

	// Where the page of templates has it, such as aws/network.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Category string `json:"category,omitempty"`

	// Whether new instances are made.
	// +kubebuilder:default=true
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// Whether lists have it. A hidden one is launched by name.
	// +kubebuilder:default=true
	// +optional
	Visible *bool `json:"visible,omitempty"`

	// The module that FluxTerraform runs.
	// +optional
	Module *TemplateModule `json:"module,omitempty"`

	// The chart that FluxHelm installs.
	// +optional
	Chart *Chart `json:"chart,omitempty"`

	// What runs it: FluxTerraform, with tofu-controller, or FluxHelm, with helm-controller.
	// +kubebuilder:default=FluxTerraform
	// +kubebuilder:validation:Enum=FluxTerraform;FluxHelm
	// +optional
	Executor string `json:"executor,omitempty"`

	// Whose an instance is.
	// +kubebuilder:default={kind: User}
	// +optional
	Owner TemplateOwner `json:"owner,omitzero"`

	// Globs over the names of groups that may own. None: every group.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=200
	// +listType=set
	// +optional
	Groups []string `json:"groups,omitempty"`

	// Most live instances of one owner. 0: no limit of the template.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	PerOwner int32 `json:"perOwner,omitempty"`

	// Most live instances of all. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Max int32 `json:"max,omitempty"`

	// What has to be approved by someone other than the requester.
	// +kubebuilder:default={}
	// +optional
	Approval TemplateApproval `json:"approval,omitzero"`

	// How long an instance lives. None: as the operator's settings say.
	// +optional
	TTL *TemplateTTL `json:"ttl,omitempty"`

	// Instances that are made before anybody asks.
	// +optional
	Pool *TemplatePool `json:"pool,omitempty"`

	// Inputs that users set, in the order of the form.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Parameters []TemplateParameter `json:"parameters,omitempty"`

	// Inputs of the module, or values of the chart, that the template sets. A parameter that values of a chart name is there and nowhere else.
	// +optional
	Inputs map[string]apiextensions.JSON `json:"inputs,omitempty"`

	// Outputs that an instance shows.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=200
	// +listType=set
	// +optional
	Outputs []string `json:"outputs,omitempty"`

	// How the result is reached.
	// +optional
	Connection *TemplateConnection `json:"connection,omitempty"`

	// Secrets of the operator's namespace whose keys are environment variables of the runs. For a chart: whose key values.yaml is below the other values.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Credentials []string `json:"credentials,omitempty"`

	// Longest time of one attempt, 1m to 24h.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="1m to 24h"
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// How often an attempt that failed is repeated.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	Retries *int32 `json:"retries,omitempty"`

	// Whether owners may protect an instance from its end.
	// +optional
	Protection bool `json:"protection,omitempty"`

	// How often an instance is compared with its state. None: never.
	// +optional
	Drift *TemplateDrift `json:"drift,omitempty"`

	// Manual, or Auto: instances take newer versions by themselves.
	// +kubebuilder:default=Manual
	// +kubebuilder:validation:Enum=Manual;Auto
	// +optional
	Update string `json:"update,omitempty"`

	// How long before the expiry a notice is sent.
	// +kubebuilder:validation:MaxItems=10
	// +listType=set
	// +optional
	Notices []Duration `json:"notices,omitempty"`

	// What an instance costs, for display.
	// +optional
	Cost *TemplateCost `json:"cost,omitempty"`
}

// TemplateOwner says whose an instance is.
// +kubebuilder:validation:XValidation:rule="has(self.claim) == (self.kind == 'Claim')",message="kind Claim has the name of a claim, others have none"
type TemplateOwner struct {
	// The User who asks, a Group of his, or whose tokens have the same value in a Claim.
	// +kubebuilder:default=User
	// +kubebuilder:validation:Enum=User;Group;Claim
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of that claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Claim string `json:"claim,omitempty"`
}

// TemplateApproval says what of an instance waits.
type TemplateApproval struct {
	// What waits for an Approval: None, each Request before anything is planned, or each Plan.
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;Request;Plan
	// +optional
	Mode string `json:"mode,omitempty"`
}

// TemplateModule is the module of a template.
type TemplateModule struct {
	// NAMESPACE/NAME/SYSTEM in the registry of the operator.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	Address string `json:"address"`

	// A constraint, a version, or sha256: and the digest of one. Empty: the highest release.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`

	// Folder of the root module inside. Empty: its top.
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Path string `json:"path,omitempty"`
}

// Lifetime is a duration, or None: no end.
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^(None|([1-9][0-9]*h)?([1-9][0-9]*m)?([1-9][0-9]*s)?)$`
type Lifetime string

// TemplateTTL is the lifetime of instances.
// +kubebuilder:validation:XValidation:rule="self.default != 'None' || !has(self.max) && !has(self.extend) && !has(self.extends) && !has(self.failed)",message="with default None there is no end, and nothing else to say of it"
type TemplateTTL struct {
	// From when it is ready or claimed. None: no end.
	Default Lifetime `json:"default"`

	// Longest, from creation or claim. Empty: no bound.
	// +optional
	Max Duration `json:"max,omitempty"`

	// By how much an owner extends. Empty: he cannot.
	// +optional
	Extend Duration `json:"extend,omitempty"`

	// How often. 0: as often as he likes.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Extends int32 `json:"extends,omitempty"`

	// How long one stays that failed before it ever was ready.
	// +optional
	Failed Duration `json:"failed,omitempty"`

	// What happens on expiry: Destroy the resources, or Keep them.
	// +kubebuilder:default=Destroy
	// +kubebuilder:validation:Enum=Destroy;Keep
	// +optional
	OnExpire string `json:"onExpire,omitempty"`
}

// TemplatePool is how many instances are kept ready.
type TemplatePool struct {
	// Instances that are kept ready to be claimed. kubectl scale sets it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Size int32 `json:"size"`

	// Most live instances of the template, waiting ones included. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Max int32 `json:"max,omitempty"`

	// One that waited for longer is replaced.
	// +optional
	MaxAge Duration `json:"maxAge,omitempty"`

	// What who finds none gets: Create makes one on demand, Refuse none.
	// +kubebuilder:default=Create
	// +kubebuilder:validation:Enum=Create;Refuse
	// +optional
	WhenEmpty string `json:"whenEmpty,omitempty"`
}

// TemplateParameter opens one input, and may narrow it.
type TemplateParameter struct {
	// Name of the input.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// Title that users see instead of the name.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Title string `json:"title,omitempty"`

	// More about it.
	// +kubebuilder:validation:MaxLength=4000
	// +optional
	Help string `json:"help,omitempty"`

	// Value if none is given. Empty: the default of the module.
	// +optional
	Default *apiextensions.JSON `json:"default,omitempty"`

	// The values that it may have.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Enum []apiextensions.JSON `json:"enum,omitempty"`

	// A regular expression that a text has to match.
	// +kubebuilder:validation:MaxLength=1000
	// +optional
	Pattern string `json:"pattern,omitempty"`

	// The least number, as text.
	// +kubebuilder:validation:Pattern=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Minimum string `json:"minimum,omitempty"`

	// The greatest number, as text.
	// +kubebuilder:validation:Pattern=`^-?[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=40
	// +optional
	Maximum string `json:"maximum,omitempty"`

	// Whether an update may change it.
	// +optional
	Update bool `json:"update,omitempty"`

	// Whether a link may fill it in. Empty: unless its name is that of a secret.
	// +optional
	Link *bool `json:"link,omitempty"`

	// It counts only if each of these parameters, which stand before it, counts and has one of the values. Else it has its default. Empty: always.
	// +kubebuilder:validation:MaxProperties=10
	// +optional
	When map[string][]apiextensions.JSON `json:"when,omitempty"`
}

// TemplateConnection tells a person how to reach what was made.
type TemplateConnection struct {
	// Web, with a URL, or Instructions, with a message.
	// +kubebuilder:default=Web
	// +kubebuilder:validation:Enum=Web;Instructions
	// +optional
	Type string `json:"type,omitempty"`

	// An expression that makes an http or https URL.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	URL string `json:"url,omitempty"`

	// An expression.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// TemplateDrift says how often an instance is compared with its state.
type TemplateDrift struct {
	// 10m and more.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m')",message="10m and more"
	Every Duration `json:"every"`

	// Whether what differs is changed back.
	// +optional
	Remediate bool `json:"remediate,omitempty"`
}

// TemplateCost is for display.
type TemplateCost struct {
	// What an hour costs, as text.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +kubebuilder:validation:MaxLength=20
	Hourly string `json:"hourly"`

	// A code such as EUR.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
}

// TemplateStatus is what the template means now.
type TemplateStatus struct {
	// Generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled, as kstatus has them. Ready: instances can be made.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Address of the module, or URL of the chart.
	// +optional
	Source string `json:"source,omitempty"`

	// Version that a launch gets now.
	// +optional
	Version string `json:"version,omitempty"`

	// Digest of that version.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Digest of the template itself, by which instances know theirs.
	// +optional
	Template string `json:"template,omitempty"`

	// JSON Schema of the inputs of the module, by which parameters are checked; up to 32 KiB.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Inputs *apiextensions.JSON `json:"inputs,omitempty"`

	// Outputs of the module, and whether each is sensitive.
	// +optional
	Outputs map[string]bool `json:"outputs,omitempty"`

	// Versions that a launch may name, the highest first, and the one that it gets now.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Versions []TemplateVersion `json:"versions,omitempty"`

	// The pool.
	// +optional
	Pool *PoolStatus `json:"pool,omitempty"`
}

// TemplateVersion is a version that the template takes.
type TemplateVersion struct {
	// The version.
	Version string `json:"version"`

	// Digest of its manifest.
	Digest string `json:"digest"`

	// Digest of the zip of a module.
	// +optional
	Archive string `json:"archive,omitempty"`

	// Size of the zip in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
}

// PoolStatus is what the operator remembers of a pool.
type PoolStatus struct {
	// Instances that are ready to be claimed.
	Available int32 `json:"available"`

	// Instances that are being made for it.
	Coming int32 `json:"coming"`

	// Instances of the pool that were claimed.
	Claimed int32 `json:"claimed"`

	// Why no instance is made for it. Empty: it is not paused.
	// +optional
	Paused string `json:"paused,omitempty"`

	// Instances that failed, one after the other.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// No instance is made for it before.
	// +optional
	Backoff *metav1.Time `json:"backoff,omitempty"`

	// Digests of template and module that the newest instances are made of.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// Template says what may be launched. The object NAMESPACE.NAME is the template NAMESPACE/NAME. Only those of the namespace for instances count.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.pool.size,statuspath=.status.pool.available
// +kubebuilder:resource:shortName=oktpl,categories=okara
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?[.][a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$') && !self.metadata.name.startsWith('tfe.')",message="a Template is called NAMESPACE.NAME, each of a-z, 0-9 and single dashes, up to 40 characters; tfe is taken"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Pool",type=integer,JSONPath=`.spec.pool.size`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.pool.available`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Template struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TemplateSpec `json:"spec"`
	// +optional
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
