// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListedState is the desired listing state of a version.
// +kubebuilder:validation:Enum=Active;Deprecated;Yanked
type ListedState string

// Values of ListedState.
const (
	ListActive     ListedState = "Active"
	ListDeprecated ListedState = "Deprecated"
	ListYanked     ListedState = "Yanked"
)

// VersionSpec is the desired state of a version.
// +kubebuilder:validation:XValidation:rule="has(self.target) != has(self.address)",message="exactly one of target and address"
// +kubebuilder:validation:XValidation:rule="has(self.address) || !has(self.source) && !has(self.auth) && !has(self.subdir) && !has(self.tagPrefix) && !has(self.platforms) && !has(self.deletionPolicy)",message="source, subdir, tagPrefix, platforms, auth and deletionPolicy are only allowed with an address: a target has its own"
// +kubebuilder:validation:XValidation:rule="has(self.source) || !has(self.subdir) && !has(self.tagPrefix)",message="subdir and tagPrefix are only allowed for a module, which has a source"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.platforms)",message="platforms are only allowed for a provider, which has no source"
// +kubebuilder:validation:XValidation:rule="has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target) && (!has(self.address) || self.address == oldSelf.address) && has(self.source) == has(oldSelf.source) && self.version == oldSelf.version",message="target, address and version are immutable: create another Version"
type VersionSpec struct {
	// The Module or Provider of the same namespace that this is a version of.
	Target *Target `json:"target,omitempty"`

	// Instead of a target, for only this version: NAMESPACE/NAME/SYSTEM of a module, with its source, or [HOST/]NAMESPACE/TYPE of a provider. The default host is registry.opentofu.org.
	// +kubebuilder:validation:MaxLength=380
	// +kubebuilder:validation:Pattern=`^([0-9A-Za-z_.:-]+/)?[0-9A-Za-z_-]+/[0-9A-Za-z_-]+$`
	Address string `json:"address,omitempty"`

	// Source of the module version, as in a Module. A provider is taken from the registry in its address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Source string `json:"source,omitempty"`

	// Folder of the module in the repository. Empty: the top folder.
	// +kubebuilder:validation:MaxLength=512
	Subdir string `json:"subdir,omitempty"`

	// Prefix of the module's tag before the version.
	// +kubebuilder:validation:MaxLength=128
	TagPrefix string `json:"tagPrefix,omitempty"`

	// Platforms of the provider to mirror, such as linux_amd64. Empty: all that the origin has.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[0-9a-z]+_[0-9a-z]+$`
	// +listType=set
	Platforms []string `json:"platforms,omitempty"`

	// Credential for the origin. Empty: it is read anonymously.
	Auth *Auth `json:"auth,omitempty"`

	// What happens to the version when this object, if it has an address, is deleted: Keep it, the default, Yank it, or Delete, which yanks it and removes its tag.
	// +kubebuilder:validation:Enum=Keep;Yank;Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// The semantic version.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-((0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\+([0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*))?$`
	Version string `json:"version"`

	// Desired listing state. Active reverts a deprecation or yank. Empty: unchanged.
	State ListedState `json:"state,omitempty"`

	// Reason, shown to users.
	// +kubebuilder:validation:MaxLength=300
	Message string `json:"message,omitempty"`

	// Version or address to use instead.
	// +kubebuilder:validation:MaxLength=300
	Replacement string `json:"replacement,omitempty"`
}

// Target names a Module or Provider of the same namespace.
type Target struct {
	// Module or Provider.
	// +kubebuilder:validation:Enum=Module;Provider
	Kind string `json:"kind"`

	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// VersionStatus is the state of a version in the registry.
type VersionStatus struct {
	RunStatus `json:",inline"`

	// State in the registry.
	State VersionState `json:"state,omitempty"`

	// Digest of the manifest or index, recorded at publication.
	Digest string `json:"digest,omitempty"`

	// Digest of the content, which does not depend on the compression.
	ContentDigest string `json:"contentDigest,omitempty"`

	// Download size; for a provider the total of all platforms.
	SizeBytes int64 `json:"sizeBytes,omitempty"`

	// Platforms of a provider.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	Platforms []string `json:"platforms,omitempty"`

	// The newest scan of a module, or of each platform of a provider, and of the source repository, the worst first. The full report is in the registry.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	Scans []Scan `json:"scans,omitempty"`

	// Not all findings are listed.
	Truncated bool `json:"truncated,omitempty"`
}

// Scan summarizes a scan report.
type Scan struct {
	// Platform of a provider that was scanned, or source for the source repository. Empty: the module.
	Subject string `json:"subject,omitempty"`

	// Name of the scanner.
	Tool string `json:"tool"`

	// When it was scanned.
	Time metav1.Time `json:"time"`

	// Number of critical findings.
	Critical int32 `json:"critical"`

	// Number of high findings.
	High int32 `json:"high"`

	// Number of medium findings.
	Medium int32 `json:"medium"`

	// Number of low findings.
	Low int32 `json:"low"`

	// Findings, most severe first, at most 50 across all scans.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one thing that a scanner found, in the words of its report.
type Finding struct {
	// Severity.
	// +kubebuilder:validation:Enum=Low;Medium;High;Critical
	Level string `json:"level"`

	// Name of the rule, or of a vulnerability.
	Rule string `json:"rule"`

	// Title of the finding.
	Title string `json:"title,omitempty"`

	// File, with the line if the report has it.
	File string `json:"file,omitempty"`

	// Vulnerable package with its version.
	Package string `json:"package,omitempty"`

	// Version of the package that fixes it.
	Fixed string `json:"fixed,omitempty"`
}

// Version is one version of a Module or Provider. The operator makes one for each of the newest versions; others may be created manually to control an older version. One with an address instead of a target is copied from its origin on its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=okver,categories={okara,okara-all}
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Digest",type=string,priority=1,JSONPath=`.status.digest`
// +kubebuilder:printcolumn:name="Address",type=string,priority=1,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Critical",type=integer,priority=1,JSONPath=`.status.scans[0].critical`
// +kubebuilder:printcolumn:name="High",type=integer,priority=1,JSONPath=`.status.scans[0].high`
type Version struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VersionSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status VersionStatus `json:"status,omitempty"`
}

// VersionList is a list of Versions.
//
// +kubebuilder:object:root=true
type VersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Version `json:"items"`
}
