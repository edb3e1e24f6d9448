// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decision is the answer to a plan.
// +kubebuilder:validation:Enum=Approve;Reject
type Decision string

// Values of Decision.
const (
	DecisionApprove Decision = "Approve"
	DecisionReject  Decision = "Reject"
)

// ApprovalLife is how long an Approval is kept.
const ApprovalLife = 30 * 24 * time.Hour

// PlanRequest is the plan of an Approval that approves a request before anything was
// planned.
const PlanRequest = "request"

// ApprovalSpec is a decision. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an Approval is immutable: create another one"
type ApprovalSpec struct {
	// The object that the decision is about, in the same namespace.
	Target ApprovalTarget `json:"target"`

	// The plan that was reviewed: the ID that the target shows, the digest of a waiting Version, or request.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Plan string `json:"plan"`

	// Generation of the target that was reviewed.
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// The approver: the user who creates this object, or portal:ISSUER#SUBJECT, which only the portal may write.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1100
	Approver string `json:"approver"`

	// Approve or Reject.
	// +kubebuilder:default=Approve
	Decision Decision `json:"decision,omitempty"`

	// Why.
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// ApprovalTarget names an object of the same namespace.
type ApprovalTarget struct {
	// Instance, Version, or a kind of apps.okara.dev.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`

	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ApprovalResult is the result of an Approval.
// +kubebuilder:validation:Enum=Accepted;Applied;Failed;Rejected;Refused;Stale
type ApprovalResult string

// Values of ApprovalResult.
const (
	ApprovalAccepted ApprovalResult = "Accepted" // it is being applied
	ApprovalApplied  ApprovalResult = "Applied"
	ApprovalFailed   ApprovalResult = "Failed"
	ApprovalRejected ApprovalResult = "Rejected" // the plan was rejected, as the decision says
	ApprovalRefused  ApprovalResult = "Refused"  // the approver lacks the right
	ApprovalStale    ApprovalResult = "Stale"    // the target has another plan by now
)

// ApprovalStatus is the status of an Approval.
type ApprovalStatus struct {
	// Generation that this status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled, as defined by kstatus. Ready: the decision was carried out. The reason is the result.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Accepted, then Applied or Failed; Rejected; Refused; Stale.
	Result ApprovalResult `json:"result,omitempty"`

	// Why.
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// Approval approves or rejects exactly one plan, or one request. It is deleted after 30 days.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okapp,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`
// +kubebuilder:printcolumn:name="Approver",type=string,JSONPath=`.spec.approver`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Approval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status ApprovalStatus `json:"status,omitempty"`
}

// ApprovalList is a list of Approvals.
//
// +kubebuilder:object:root=true
type ApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Approval `json:"items"`
}
