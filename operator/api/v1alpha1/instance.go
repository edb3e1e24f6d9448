// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InstanceSpec is the desired state of an instance. Values beyond the limits of
// the template are reduced or refused by the operator; the status has the effective values.
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template",message="the template of an Instance is immutable: create another Instance"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.owner) || has(self.owner) && self.owner == oldSelf.owner",message="an owner is set once"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.createdBy) || has(self.createdBy) && self.createdBy == oldSelf.createdBy",message="createdBy is set once"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.owner) || has(self.claims) == has(oldSelf.claims) && (!has(self.claims) || self.claims == oldSelf.claims) && has(self.ttl) == has(oldSelf.ttl) && (!has(self.ttl) || self.ttl == oldSelf.ttl)",message="claims and ttl are set with the owner"
// +kubebuilder:validation:XValidation:rule="has(self.owner) == has(self.createdBy)",message="owner and createdBy are set together; without them it belongs to a pool"
type InstanceSpec struct {
	// The template, NAMESPACE/NAME.
	// +kubebuilder:validation:MaxLength=81
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*$`
	Template string `json:"template"`

	// Version of the module, one of those that the template allows. Empty: the template's version at launch. A change updates the instance.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// Display name, chosen by the owner.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// The owner. Empty: it waits in a pool. Setting the owner claims it.
	Owner *Owner `json:"owner,omitempty"`

	// The user who launched or claimed it: the user's name, or portal:ISSUER#SUBJECT, which only the portal may write.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1100
	CreatedBy string `json:"createdBy,omitempty"`

	// The user who last changed it, in the form of createdBy.
	// +kubebuilder:validation:MaxLength=1100
	ChangedBy string `json:"changedBy,omitempty"`

	// Claims of the user who launched it, as far as the template names them.
	// +kubebuilder:validation:MaxProperties=20
	Claims map[string]ClaimValue `json:"claims,omitempty"`

	// Values of the template's parameters. Changing a parameter that is marked update runs the instance again.
	// +kubebuilder:validation:MaxProperties=100
	Parameters map[string]apiextensions.JSON `json:"parameters,omitempty"`

	// Lifetime from the time it is ready or claimed. Empty: the template's default.
	TTL Duration `json:"ttl,omitempty"`

	// Postpones the expiry, as far as the template allows. Empty: determined by the lifetime.
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// Whether it is protected from expiry, if the template allows that.
	Protected bool `json:"protected,omitempty"`
}

// ClaimValue is the value of a claim.
// +kubebuilder:validation:MaxLength=2048
type ClaimValue string

// Owner identifies the owner of an instance by kind, issuer and id.
type Owner struct {
	// User, Group, or Claim (all users whose token has the value in a claim).
	// +kubebuilder:validation:Enum=User;Group;Claim
	Kind string `json:"kind"`

	// Issuer of the identity. Empty: the cluster.
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`

	// Subject, name of the group, or value of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id"`

	// Display name.
	// +kubebuilder:validation:MaxLength=128
	Label string `json:"label,omitempty"`
}

// InstancePhase summarizes the conditions of an instance in one word. Ready and
// Available are only while the condition Ready is true, Failed only while Stalled is.
// +kubebuilder:validation:Enum=Requested;Planned;Provisioning;Updating;Available;Ready;Failed;Destroying;DestroyFailed;Destroyed;Orphaned;Rejected
type InstancePhase string

// InstanceStatus is the status of an instance.
type InstanceStatus struct {
	// Generation that this status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Summary of the conditions in one word. Ready and Available only while the condition Ready is true, Failed only while Stalled is true.
	Phase InstancePhase `json:"phase,omitempty"`

	// Reason for the phase.
	// +kubebuilder:validation:MaxLength=4096
	Reason string `json:"reason,omitempty"`

	// Ready, Reconciling and Stalled, as defined by kstatus, and Waiting, Drifted, UpdateAvailable, ExpiresSoon, ExpiredProtected, AwaitingApproval.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The ID, ten characters, by which the portal and its namespace name it. In the namespace of Templates a name that is an ID is its ID; else the operator determines it.
	// +kubebuilder:validation:MaxLength=10
	ID string `json:"id,omitempty"`

	// UID that identifies everything that was created for it. An object restored from a backup has a different UID itself.
	UID types.UID `json:"uid,omitempty"`

	// The version that runs.
	Module *RunningModule `json:"module,omitempty"`

	// Namespace of the objects that were created for it.
	Namespace string `json:"namespace,omitempty"`

	// URL at which it is reached.
	URL string `json:"url,omitempty"`

	// Instructions for reaching it.
	Message string `json:"message,omitempty"`

	// When it expires. Empty: never.
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// The plan that waits for approval, to be named in the Approval.
	Plan string `json:"plan,omitempty"`

	// The outputs that the template lists, without sensitive ones.
	Outputs map[string]apiextensions.JSON `json:"outputs,omitempty"`

	// The values of the spec and of annotations that were last processed.
	Handled *Handled `json:"handled,omitempty"`

	// Internal data that okara keeps besides the spec. Only the operator writes and reads it.
	// +kubebuilder:pruning:PreserveUnknownFields
	Record *apiextensions.JSON `json:"record,omitempty"`

	// The templates of its runs, by digest, so that an instance can be destroyed after its Template has changed or is gone.
	Snapshots map[string]apiextensions.JSON `json:"snapshots,omitempty"`
}

// RunningModule is a version of a module or a chart.
type RunningModule struct {
	// The version.
	Version string `json:"version,omitempty"`

	// Its digest.
	Digest string `json:"digest,omitempty"`
}

// Handled holds the values that the operator has processed. Any difference from them is a request.
type Handled struct {
	// spec.name
	Name string `json:"name,omitempty"`

	// spec.protected
	Protected bool `json:"protected,omitempty"`

	// spec.expiresAt
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// Digest of spec.parameters and spec.version.
	Inputs string `json:"inputs,omitempty"`

	// Annotation okara.dev/requestedAt.
	Request string `json:"request,omitempty"`

	// Annotation okara.dev/cancel.
	Cancel string `json:"cancel,omitempty"`

	// Why the last request was refused. Empty: it was not refused.
	// +kubebuilder:validation:MaxLength=4096
	Refused string `json:"refused,omitempty"`

	// Generation whose change of the spec was refused. While it is the current generation, the object is not Ready.
	RefusedGeneration int64 `json:"refusedGeneration,omitempty"`
}

// Instance is one launch of a template, with its own state. Deleting it destroys its resources. It may be in any namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okinst,categories=okara-all
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="the name of an Instance is a DNS label: at most 63 lower case letters, digits and hyphens"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.id`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.module.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InstanceSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status InstanceStatus `json:"status,omitempty"`
}

// InstanceList is a list of Instances.
//
// +kubebuilder:object:root=true
type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Instance `json:"items"`
}
