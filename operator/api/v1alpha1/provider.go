// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderEntry is what Providers and the providers of a Depot have in common.
type ProviderEntry struct {
	// [HOST/]NAMESPACE/TYPE of the mirrored provider. The default host is registry.opentofu.org.
	// +kubebuilder:validation:MaxLength=380
	// +kubebuilder:validation:Pattern=`^([0-9A-Za-z.:-]+/)?[0-9A-Za-z_-]+/[0-9A-Za-z_-]+$`
	Address string `json:"address"`

	// Where the versions are, if not in the registry that the address names: a host of another registry, https://HOST/PATH/ of a network mirror, or oci://HOST[/PREFIX].
	// +kubebuilder:validation:MaxLength=1024
	Origin string `json:"origin,omitempty"`

	// Platforms to mirror, such as linux_amd64. Empty: all that the origin has.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-z]+_[0-9a-z]+$`
	// +listType=set
	Platforms []string `json:"platforms,omitempty"`

	// Accept a provider without a signature.
	AllowUnsigned bool `json:"allowUnsigned,omitempty"`

	EntrySpec `json:",inline"`
}

// ProviderSpec is the desired state of a Provider.
// +kubebuilder:validation:XValidation:rule="self.address == oldSelf.address",message="the address is immutable: create another Provider"
type ProviderSpec struct {
	ProviderEntry `json:",inline"`
	RunSpec       `json:",inline"`
}

// Provider is a provider that the registry mirrors, kept in sync with its origin.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okprov,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latest`
// +kubebuilder:printcolumn:name="Versions",type=integer,JSONPath=`.status.published`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Origin",type=string,priority=1,JSONPath=`.spec.origin`
type Provider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ProviderSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status EntryStatus `json:"status,omitempty"`
}

// ProviderList is a list of Providers.
//
// +kubebuilder:object:root=true
type ProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Provider `json:"items"`
}
