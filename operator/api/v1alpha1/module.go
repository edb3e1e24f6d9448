// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModuleEntry is what Modules and the modules of a Depot have in common.
type ModuleEntry struct {
	// Address NAMESPACE/NAME/SYSTEM of the module for clients.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	Address string `json:"address"`

	// Where the versions are: github.com/OWNER/REPOSITORY, git::https://HOST/PATH, [HOST/]NAMESPACE/NAME/SYSTEM of a module registry, or oci://HOST/REPOSITORY.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Source string `json:"source"`

	// Folder of the module in the repository. Empty: the top folder.
	// +kubebuilder:validation:MaxLength=512
	Subdir string `json:"subdir,omitempty"`

	// For a Git repository: only tags with this prefix are versions. The prefix is removed.
	// +kubebuilder:validation:MaxLength=128
	TagPrefix string `json:"tagPrefix,omitempty"`

	// For a GitHub repository: use releases instead of tags.
	Releases bool `json:"releases,omitempty"`

	// How to handle an upstream version whose content changed: Immutable (default) or Editions.
	Policy Policy `json:"policy,omitempty"`

	// Rules in the format of .terraformignore for files to leave out.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Ignore []string `json:"ignore,omitempty"`

	EntrySpec `json:",inline"`
}

// ModuleSpec is the desired state of a Module.
// +kubebuilder:validation:XValidation:rule="self.address == oldSelf.address",message="the address is immutable: create another Module"
type ModuleSpec struct {
	ModuleEntry `json:",inline"`
	RunSpec     `json:",inline"`
}

// Module is a module in the registry, kept in sync with its origin.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okmod,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latest`
// +kubebuilder:printcolumn:name="Versions",type=integer,JSONPath=`.status.published`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.spec.source`
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status EntryStatus `json:"status,omitempty"`
}

// ModuleList is a list of Modules.
//
// +kubebuilder:object:root=true
type ModuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Module `json:"items"`
}
