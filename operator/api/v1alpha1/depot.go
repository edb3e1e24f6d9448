// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DepotSpec defines a set of modules and providers.
type DepotSpec struct {
	// Interval between checks of the origin of each entry. 0s: only once after each change.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1m')",message="must be 0s, or at least 1m"
	Interval *Duration `json:"interval,omitempty"`

	// Stops the runs of all entries.
	Suspend bool `json:"suspend,omitempty"`

	// Default values for entries.
	Defaults DepotDefaults `json:"defaults,omitempty"`

	// Each becomes a Module.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=address
	Modules []ModuleEntry `json:"modules,omitempty"`

	// Each becomes a Provider.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=address
	Providers []ProviderEntry `json:"providers,omitempty"`

	// What happens to the Modules and Providers when this Depot, or their entry, is deleted: Keep them, or Delete them. Published versions stay.
	// +kubebuilder:validation:Enum=Keep;Delete
	// +kubebuilder:default=Keep
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DepotDefaults are default values for entries.
type DepotDefaults struct {
	// Credential for the origins.
	Auth *Auth `json:"auth,omitempty"`

	// Immutable or Editions, of modules.
	Policy Policy `json:"policy,omitempty"`

	// Maximum number of versions that are considered. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	Limit *int32 `json:"limit,omitempty"`

	// Number of versions that retention keeps. 0: all of them.
	// +kubebuilder:validation:Minimum=0
	Keep *int32 `json:"keep,omitempty"`

	// Platforms of providers.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-z]+_[0-9a-z]+$`
	// +listType=set
	Platforms []string `json:"platforms,omitempty"`

	// Rules of .terraformignore for modules.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Ignore []string `json:"ignore,omitempty"`

	// Scan versions before they are published.
	Scan *ScanPolicy `json:"scan,omitempty"`

	// Which new versions require approval.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
}

// DepotStatus summarizes the state of the entries.
type DepotStatus struct {
	// Generation that this status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Reconciling and Stalled, as defined by kstatus.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Last value of the annotation okara.dev/requestedAt that led to a run.
	// +kubebuilder:validation:MaxLength=256
	LastHandledRequest string `json:"lastHandledRequest,omitempty"`

	// Last value of Flux's annotation reconcile.fluxcd.io/requestedAt that led to a run.
	// +kubebuilder:validation:MaxLength=256
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Number of Modules.
	Modules int32 `json:"modules,omitempty"`

	// Number of Providers.
	Providers int32 `json:"providers,omitempty"`

	// Number of entries that are not Ready.
	Failed int32 `json:"failed,omitempty"`

	// Entries, those that are not Ready first, at most 100.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Entries []DepotEntry `json:"entries,omitempty"`

	// Not all entries are listed.
	Truncated bool `json:"truncated,omitempty"`
}

// DepotEntry is one entry of a Depot.
type DepotEntry struct {
	// Module or Provider.
	Kind string `json:"kind"`

	// Name of that object.
	Name string `json:"name"`

	// Address of the entry.
	Address string `json:"address"`

	// Newest version in the registry.
	Latest string `json:"latest,omitempty"`

	// Reason why the entry is not Ready.
	Reason string `json:"reason,omitempty"`
}

// Depot is a set of modules and providers that the registry is to hold.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okdepot,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Modules",type=integer,JSONPath=`.status.modules`
// +kubebuilder:printcolumn:name="Providers",type=integer,JSONPath=`.status.providers`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Depot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DepotSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status DepotStatus `json:"status,omitempty"`
}

// DepotList is a list of Depots.
//
// +kubebuilder:object:root=true
type DepotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Depot `json:"items"`
}
