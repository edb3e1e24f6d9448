// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModuleKindSpec says how a module of the registry becomes a kind of the group apps.okara.dev.
type ModuleKindSpec struct {
	// Names of the kind. They are immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="names are immutable: create another ModuleKind"
	// +kubebuilder:validation:XValidation:rule="self.plural != 'instance'",message="the plural instance is reserved for the states of Instances"
	Names KindNames `json:"names"`

	// The module that runs for each object.
	// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.repository)",message="exactly one of address and repository"
	Module KindModule `json:"module"`

	// Which inputs of the module users see, and which values they may set.
	// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.hide)",message="expose or hide, not both"
	// +optional
	Schema KindSchema `json:"schema,omitzero"`

	// Values of inputs that users do not see, by name. They override those of an object.
	// +kubebuilder:validation:MaxProperties=100
	Values map[string]apiextensions.JSON `json:"values,omitempty"`

	// How the module runs, for all objects.
	// +kubebuilder:default={}
	// +optional
	Run KindRun `json:"run,omitzero"`

	// What happens to the created resources when an object, or this definition, is deleted.
	// +kubebuilder:default={}
	// +optional
	Deletion KindDeletion `json:"deletion,omitzero"`

	// Which outputs users get, and where. Without include no Secret is created.
	// +kubebuilder:validation:XValidation:rule="!has(self.status) || has(self.include) && self.status.all(name, name in self.include)",message="status may only name outputs in include"
	// +optional
	Outputs KindOutputs `json:"outputs,omitzero"`

	// Which newer versions objects upgrade to automatically.
	// +kubebuilder:default={}
	// +optional
	Upgrade KindUpgrade `json:"upgrade,omitzero"`

	// The card of the kind in the portal's list of templates.
	// +optional
	Dashboard KindDashboard `json:"dashboard,omitzero"`
}

// KindNames are the names of a kind.
type KindNames struct {
	// Name of the kind, such as VPC.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][0-9A-Za-z]*$`
	Kind string `json:"kind"`

	// Name in API paths, such as vpcs. The definition must have the same name.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'instances'",message="instances is reserved for the kind Instance"
	Plural string `json:"plural"`

	// Singular name on the command line. Default: the kind in lower case.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	Singular string `json:"singular,omitempty"`

	// Short names on the command line.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	// +listType=set
	ShortNames []string `json:"shortNames,omitempty"`
}

// KindModule names a module in the registry of the operator.
type KindModule struct {
	// NAMESPACE/NAME/SYSTEM of the module.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	Address string `json:"address,omitempty"`

	// Instead of an address: a repository below the operator's registry whose tags are the versions.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[0-9a-z]+([._-]+[0-9a-z]+)*(/[0-9a-z]+([._-]+[0-9a-z]+)*)*$`
	Repository string `json:"repository,omitempty"`

	// A version, or a constraint that selects versions, as in a version argument of OpenTofu. Empty: every release.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^\s*([=!<>~]*\s*[0-9xX*][0-9A-Za-z.*+-]*\s*(,\s*|$))*$`
	Version string `json:"version,omitempty"`

	// Folder of the root module in the module. Empty: the top folder.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(\./)?[0-9A-Za-z_.-]+(/[0-9A-Za-z_.-]+)*/?$`
	// +kubebuilder:validation:XValidation:rule="!('..' in self.split('/'))",message="the path must be inside the module"
	Path string `json:"path,omitempty"`

	// Requirements that a version must fulfil.
	Verify *KindVerify `json:"verify,omitempty"`
}

// KindVerify says which signature a version must have.
type KindVerify struct {
	// Public keys of cosign, in PEM. A signature by one of them is required.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Keys []string `json:"keys"`
}

// KindSchema says what spec of an object looks like.
type KindSchema struct {
	// JSON Schema of an object whose properties are the inputs, instead of the schema of the module.
	Inline *apiextensions.JSON `json:"inline,omitempty"`

	// Inputs that users see. Empty: all but those of hide and of values.
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	Expose []InputName `json:"expose,omitempty"`

	// Inputs that users do not see. The module must have defaults for them.
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	Hide []InputName `json:"hide,omitempty"`

	// Inputs that cannot be changed after an object is created.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	Immutable []InputName `json:"immutable,omitempty"`

	// CEL rules about spec, which is self.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Validations []KindValidation `json:"validations,omitempty"`
}

// InputName is the name of an input or output of a module.
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[a-z_][0-9a-z_]*$`
type InputName string

// KindValidation is a rule about spec.
type KindValidation struct {
	// CEL expression that is true for valid values, such as self.min <= self.max.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Rule string `json:"rule"`

	// Message for users if the rule is violated.
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// KindDeletion says what happens to the created resources.
type KindDeletion struct {
	// Whether the infrastructure of an object is destroyed with it.
	// +kubebuilder:default=true
	Destroy *bool `json:"destroy,omitempty"`

	// What happens to objects when this definition is deleted: Refuse waits until there are none; Keep removes them, and keeps their infrastructure and states.
	// +kubebuilder:default=Refuse
	Orphan OrphanPolicy `json:"orphan,omitempty"`
}

// OrphanPolicy says what happens to objects whose definition is deleted.
// +kubebuilder:validation:Enum=Refuse;Keep
type OrphanPolicy string

// OrphanKeep removes objects, and keeps their resources.
const OrphanKeep OrphanPolicy = "Keep"

// KindOutputs says which outputs users get.
type KindOutputs struct {
	// Name of the Secret in the namespace of each object; {name} and {singular} are replaced by those of the object. Default {singular}-{name}-outputs.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[0-9a-z{}.-]+$`
	// +kubebuilder:validation:XValidation:rule="self.contains('{name}') && self.replace('{name}', '').replace('{singular}', '').matches('^[0-9a-z.-]*$')",message="it must contain {name}; besides that only {singular} is allowed in braces"
	SecretName string `json:"secretName,omitempty"`

	// Outputs that users get, in the Secret.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Include []InputName `json:"include,omitempty"`

	// Outputs whose values are also shown in status.outputValues, without sensitive ones.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Status []InputName `json:"status,omitempty"`

	// Labels of the Secret.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="labels with the prefix okara.dev/ are reserved for the operator"
	Labels map[string]string `json:"labels,omitempty"`

	// Subjects that may read the Secret and the text of plans, in the namespace of each object.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Readers []KindReader `json:"readers,omitempty"`
}

// KindReader is a subject that may read outputs.
// +kubebuilder:validation:XValidation:rule="has(self.namespace) == (self.kind == 'ServiceAccount')",message="namespace is required for a ServiceAccount, and not allowed for users and groups"
type KindReader struct {
	// User, Group or ServiceAccount.
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind"`

	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Namespace of a ServiceAccount.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// KindUpgrade says which newer versions objects upgrade to automatically.
type KindUpgrade struct {
	// Automatic upgrades among the versions that module.version allows. Manual: none, and the kind keeps its version until module changes. Patch: only patch releases. Minor: releases of the same major version. Any: all newer versions.
	// +kubebuilder:default=Manual
	Policy UpgradePolicy `json:"policy,omitempty"`

	// Maximum number of objects that are changed at the same time. The rest waits, and is not changed if one of them fails.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
}

// UpgradePolicy says which newer versions are taken.
// +kubebuilder:validation:Enum=Manual;Patch;Minor;Any
type UpgradePolicy string

// Values of UpgradePolicy.
const (
	UpgradeManual UpgradePolicy = "Manual"
	UpgradePatch  UpgradePolicy = "Patch"
	UpgradeMinor  UpgradePolicy = "Minor"
	UpgradeAny    UpgradePolicy = "Any"
)

// KindDashboard is a card of the portal.
type KindDashboard struct {
	// Title of the card.
	// +kubebuilder:validation:MaxLength=100
	Title string `json:"title,omitempty"`

	// Category in which it is listed.
	// +kubebuilder:validation:MaxLength=100
	Category string `json:"category,omitempty"`

	// Name of an icon.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-z-]+$`
	Icon string `json:"icon,omitempty"`

	// Words to search for.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	Tags []string `json:"tags,omitempty"`

	// Description of its purpose.
	// +kubebuilder:validation:MaxLength=2000
	Description string `json:"description,omitempty"`
}

// ModuleKindStatus is the status of a definition.
type ModuleKindStatus struct {
	RunStatus `json:",inline"`

	// The version that new objects get.
	Module *ResolvedModule `json:"module,omitempty"`

	// A newer version that module.version allows. A change of module.version takes it.
	// +kubebuilder:validation:MaxLength=128
	UpdateAvailable string `json:"updateAvailable,omitempty"`

	// An example object of the kind, in YAML.
	// +kubebuilder:validation:MaxLength=16384
	Example string `json:"example,omitempty"`

	// Number of objects of the kind.
	Objects int32 `json:"objects,omitempty"`

	// Number of objects that do not match the current definition yet.
	Outdated int32 `json:"outdated,omitempty"`
}

// ResolvedModule is a version of a module that was found in the registry.
type ResolvedModule struct {
	// The version.
	Version string `json:"version"`

	// Digest of its manifest.
	Digest string `json:"digest"`
}

// ModuleKind defines a Kubernetes kind for a module in the registry. tofu-controller runs the module for each object of that kind.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=okkind,categories=okara-all
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.names.plural",message="metadata.name must equal spec.names.plural"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.names.kind`
// +kubebuilder:printcolumn:name="Module",type=string,JSONPath=`.spec.module.address`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.module.version`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ModuleKind struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleKindSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	Status ModuleKindStatus `json:"status,omitempty"`
}

// ModuleKindList is a list of ModuleKinds.
//
// +kubebuilder:object:root=true
type ModuleKindList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModuleKind `json:"items"`
}
