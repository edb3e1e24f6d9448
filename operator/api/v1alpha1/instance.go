// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InstanceSpec is the desired state of an instance. What goes beyond the limits of
// the template is cut or refused by the operator, and the status says what counts.
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template",message="the template of an instance never changes: make another Instance"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.owner) || has(self.owner) && self.owner == oldSelf.owner",message="an owner is set once"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.createdBy) || has(self.createdBy) && self.createdBy == oldSelf.createdBy",message="createdBy is set once"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.owner) || has(self.claims) == has(oldSelf.claims) && (!has(self.claims) || self.claims == oldSelf.claims) && has(self.ttl) == has(oldSelf.ttl) && (!has(self.ttl) || self.ttl == oldSelf.ttl)",message="claims and ttl are set with the owner"
// +kubebuilder:validation:XValidation:rule="has(self.owner) == has(self.createdBy)",message="owner and createdBy are set together; without them it belongs to a pool"
type InstanceSpec struct {
	// The template, NAMESPACE/NAME.
	// +kubebuilder:validation:MaxLength=81
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*$`
	Template string `json:"template"`

	// Version of the module, of those that the template takes. Empty: what it takes at the launch. Another one updates the instance.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Version string `json:"version,omitempty"`

	// What its owner calls it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Name string `json:"name,omitempty"`

	// Whose it is. None: it waits in a pool. Setting it claims it.
	// +optional
	Owner *Owner `json:"owner,omitempty"`

	// Who launched or claimed it: the user's name, or portal:ISSUER#SUBJECT, which only the portal writes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1100
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`

	// Who changed it last, in the form of createdBy.
	// +kubebuilder:validation:MaxLength=1100
	// +optional
	ChangedBy string `json:"changedBy,omitempty"`

	// Claims of who launched it that the template names.
	// +kubebuilder:validation:MaxProperties=20
	// +optional
	Claims map[string]ClaimValue `json:"claims,omitempty"`

	// Values of the parameters that the template opens. Other values of those marked update run it again.
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	Parameters map[string]apiextensions.JSON `json:"parameters,omitempty"`

	// Lifetime from when it is ready or claimed. Empty: the template's.
	// +optional
	TTL Duration `json:"ttl,omitempty"`

	// Puts the end off, as far as the template lets its owner. Empty: as the lifetime says.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// Whether its end is held off, where the template lets its owner.
	// +optional
	Protected bool `json:"protected,omitempty"`
}

// ClaimValue is the value of a claim.
// +kubebuilder:validation:MaxLength=2048
type ClaimValue string

// Owner is who an instance belongs to: kind, issuer and id together.
type Owner struct {
	// User, Group, or Claim: whose token has the value in a claim.
	// +kubebuilder:validation:Enum=User;Group;Claim
	Kind string `json:"kind"`

	// Who says so. Empty: the cluster.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Issuer string `json:"issuer,omitempty"`

	// Subject, name of the group, or value of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id"`

	// What a person calls himself; for display only.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Label string `json:"label,omitempty"`
}

// InstancePhase is where an instance is in its life: its conditions in a word. Ready and
// Available are only while the condition Ready is true, Failed only while Stalled is.
// +kubebuilder:validation:Enum=Requested;Planned;Provisioning;Updating;Available;Ready;Failed;Destroying;DestroyFailed;Destroyed;Orphaned;Rejected
type InstancePhase string

// InstanceStatus is what became of an instance.
type InstanceStatus struct {
	// Generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Where it is in its life: the conditions in a word. Ready and Available only while Ready is true, Failed only while Stalled is.
	// +optional
	Phase InstancePhase `json:"phase,omitempty"`

	// Why it is there.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Reason string `json:"reason,omitempty"`

	// Ready, Reconciling and Stalled, as kstatus has them, and Waiting, Drifted, UpdateAvailable, ExpiresSoon, ExpiredProtected, AwaitingApproval.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// UID by which what was made for it is known. An object restored from a backup has another UID of its own.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// What runs.
	// +optional
	Module *RunningModule `json:"module,omitempty"`

	// Namespace of what was made for it in the cluster.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Where it is reached.
	// +optional
	URL string `json:"url,omitempty"`

	// How it is reached.
	// +optional
	Message string `json:"message,omitempty"`

	// When it ends. None: never.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// What an Approval has to name: the plan that waits.
	// +optional
	Plan string `json:"plan,omitempty"`

	// The outputs that the template lists, without sensitive ones.
	// +optional
	Outputs map[string]apiextensions.JSON `json:"outputs,omitempty"`

	// What was last heard of the spec and of annotations.
	// +optional
	Handled *Handled `json:"handled,omitempty"`

	// What okara keeps of it beside the spec. Only the operator writes and reads it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Record *apiextensions.JSON `json:"record,omitempty"`

	// The templates that its runs are made of, by digest: an instance ends whatever became of its Template.
	// +optional
	Snapshots map[string]apiextensions.JSON `json:"snapshots,omitempty"`
}

// RunningModule is a version of a module or a chart.
type RunningModule struct {
	// The version.
	// +optional
	Version string `json:"version,omitempty"`

	// Its digest.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// Handled is what the operator has taken notice of. What differs from it is a request.
type Handled struct {
	// spec.name
	// +optional
	Name string `json:"name,omitempty"`

	// spec.protected
	// +optional
	Protected bool `json:"protected,omitempty"`

	// spec.expiresAt
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// Digest of spec.parameters and spec.version.
	// +optional
	Inputs string `json:"inputs,omitempty"`

	// Annotation okara.dev/requestedAt.
	// +optional
	Request string `json:"request,omitempty"`

	// Annotation okara.dev/cancel.
	// +optional
	Cancel string `json:"cancel,omitempty"`

	// Why the last request was refused. Empty: it was not.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Refused string `json:"refused,omitempty"`

	// Generation whose change of the spec was refused: as long as it is the object's, it is not Ready.
	// +optional
	RefusedGeneration int64 `json:"refusedGeneration,omitempty"`
}

// Instance is one launch of a template, with a state of its own. Deleting it destroys what it made. Only those of the namespace for instances count.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okinst,categories=okara
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[abcdefghjkmnpqrstvwxyz][abcdefghjkmnpqrstvwxyz2-9]{9}$')",message="the name of an Instance is its id: 10 letters and digits without i, l, o, u, 0 and 1, the first a letter"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner.id`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.module.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Instance struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InstanceSpec `json:"spec"`
	// +optional
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
