// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessRuleSpec grants rights to callers whose token fulfils all conditions.
// +kubebuilder:validation:XValidation:rule="has(self.issuer) || has(self.groups) || has(self.claims)",message="at least one of issuer, groups and claims is required"
type AccessRuleSpec struct {
	// Issuer of the token, by its name in the configuration of okara serve. Empty: any configured issuer.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`

	// The token has to name one of these groups.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	Groups []string `json:"groups,omitempty"`

	// Claims that the token must have, each with a glob that matches its value.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) > 0 && size(name) <= 128)",message="a name of a claim has 1 to 128 characters"
	Claims map[string]ClaimGlob `json:"claims,omitempty"`

	// Rights, each ACTION:KIND:GLOB with read or publish of module, provider or mirror. The glob must be within the addresses that the namespace may use. After their first wildcard it may contain a claim of the token: read:module:team-a/{project}/*.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	Allow []Right `json:"allow"`
}

// ClaimGlob is a glob over the value of a claim.
// +kubebuilder:validation:MaxLength=256
type ClaimGlob string

// Right is ACTION:KIND:GLOB.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^(read|publish):(module|provider|mirror):[^ \t\r\n]+$`
type Right string

// AccessRuleStatus says whether the rule is in effect.
type AccessRuleStatus struct {
	// Generation that this status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled, as defined by kstatus. Ready: the rule is in the file that okara serve reads.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AccessRule grants rights at okara serve to callers whose token fulfils its conditions. Rules are cumulative.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okrule,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Allow",type=string,JSONPath=`.spec.allow`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type AccessRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AccessRuleSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status AccessRuleStatus `json:"status,omitempty"`
}

// AccessRuleList is a list of AccessRules.
//
// +kubebuilder:object:root=true
type AccessRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AccessRule `json:"items"`
}
