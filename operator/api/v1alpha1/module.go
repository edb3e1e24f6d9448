// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModuleEntry is what Modules and the modules of a Depot have in common.
type ModuleEntry struct {
	// NAMESPACE/NAME/SYSTEM, under which clients find the module.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	Address string `json:"address"`

	// Where the versions are: github.com/OWNER/REPOSITORY, git::https://HOST/PATH, [HOST/]NAMESPACE/NAME/SYSTEM of a module registry, or oci://HOST/REPOSITORY.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Source string `json:"source"`

	// Folder of the module in the repository. Empty: its top.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Subdir string `json:"subdir,omitempty"`

	// Of a git repository: only tags that start so are versions, and it is cut off.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	TagPrefix string `json:"tagPrefix,omitempty"`

	// Of a repository on GitHub: take releases in place of tags.
	// +optional
	Releases bool `json:"releases,omitempty"`

	// Immutable, the default, or Editions: what becomes of an upstream version whose content changed.
	// +optional
	Policy Policy `json:"policy,omitempty"`

	// Rules of .terraformignore for files that are left out.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	Ignore []string `json:"ignore,omitempty"`

	EntrySpec `json:",inline"`
}

// ModuleSpec is what a Module wants.
// +kubebuilder:validation:XValidation:rule="self.address == oldSelf.address",message="an address cannot change: make another Module"
type ModuleSpec struct {
	ModuleEntry `json:",inline"`
	RunSpec     `json:",inline"`
}

// Module is a module of the registry, kept in step with its origin.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okmod,categories=okara
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latest`
// +kubebuilder:printcolumn:name="Versions",type=integer,JSONPath=`.status.published`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.spec.source`
type Module struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleSpec `json:"spec"`
	// +optional
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
