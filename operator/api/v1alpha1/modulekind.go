// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModuleKindSpec says how a module of the registry becomes a kind of the group apps.okara.dev.
type ModuleKindSpec struct {
	// What the kind is called. It cannot change.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="names cannot change: make another ModuleKind"
	// +kubebuilder:validation:XValidation:rule="self.plural != 'instance'",message="the plural instance is taken: states of instances are called so"
	Names KindNames `json:"names"`

	// The module that runs for each object.
	// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.repository)",message="exactly one of address and repository"
	Module KindModule `json:"module"`

	// What of the module's inputs users see, and what they may write.
	// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.hide)",message="expose or hide, not both"
	// +optional
	Schema KindSchema `json:"schema,omitzero"`

	// Inputs that users do not see, by name. They win over what an object says.
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	Values map[string]apiextensions.JSON `json:"values,omitempty"`

	// How the module runs, for all objects.
	// +kubebuilder:default={}
	// +optional
	Run KindRun `json:"run,omitzero"`

	// What becomes of what was made when an object, or this definition, is deleted.
	// +kubebuilder:default={}
	// +optional
	Deletion KindDeletion `json:"deletion,omitzero"`

	// Which outputs users get, and how. Without include there is no Secret.
	// +kubebuilder:validation:XValidation:rule="!has(self.status) || has(self.include) && self.status.all(name, name in self.include)",message="status names outputs of include only"
	// +optional
	Outputs KindOutputs `json:"outputs,omitzero"`

	// Which newer versions objects take by themselves.
	// +kubebuilder:default={}
	// +optional
	Upgrade KindUpgrade `json:"upgrade,omitzero"`

	// The card of the kind among the templates of the portal.
	// +optional
	Dashboard KindDashboard `json:"dashboard,omitzero"`
}

// KindNames are the names of a kind.
type KindNames struct {
	// Name of the kind, such as VPC.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][0-9A-Za-z]*$`
	Kind string `json:"kind"`

	// Name in addresses, such as vpcs. The definition has the same name.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	Plural string `json:"plural"`

	// Name of one on the command line. Default the kind in small letters.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	// +optional
	Singular string `json:"singular,omitempty"`

	// Short names on the command line.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-0-9a-z]*[0-9a-z])?$`
	// +listType=set
	// +optional
	ShortNames []string `json:"shortNames,omitempty"`
}

// KindModule names a module in the registry of the operator.
type KindModule struct {
	// NAMESPACE/NAME/SYSTEM of the module.
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z_-]+/[0-9A-Za-z_-]+/[0-9a-z]+$`
	// +optional
	Address string `json:"address,omitempty"`

	// In place of an address, a repository below the registry of the operator whose tags are the versions.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[0-9a-z]+([._-]+[0-9a-z]+)*(/[0-9a-z]+([._-]+[0-9a-z]+)*)*$`
	// +optional
	Repository string `json:"repository,omitempty"`

	// A version, or a constraint that selects versions, as in a version argument of OpenTofu. Empty: every release.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`

	// Folder of the module that runs, inside. Empty: its top.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(\./)?[0-9A-Za-z_.-]+(/[0-9A-Za-z_.-]+)*/?$`
	// +kubebuilder:validation:XValidation:rule="!('..' in self.split('/'))",message="the path stays inside of the module"
	// +optional
	Path string `json:"path,omitempty"`

	// What a version must have to be taken.
	// +optional
	Verify *KindVerify `json:"verify,omitempty"`
}

// KindVerify says who has to have signed a version.
type KindVerify struct {
	// Public keys of cosign, in PEM. One of them has to have signed.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Keys []string `json:"keys"`
}

// KindSchema says what spec of an object looks like.
type KindSchema struct {
	// JSON Schema of an object whose properties are inputs, in place of what the module says.
	// +optional
	Inline *apiextensions.JSON `json:"inline,omitempty"`

	// Inputs that users see. Empty: all but those of hide and of values.
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +optional
	Expose []InputName `json:"expose,omitempty"`

	// Inputs that users do not see; the module has to have a default for them.
	// +kubebuilder:validation:MaxItems=200
	// +listType=set
	// +optional
	Hide []InputName `json:"hide,omitempty"`

	// Inputs that cannot change once an object is there.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	// +optional
	Immutable []InputName `json:"immutable,omitempty"`

	// Rules in CEL about spec, which self is.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Validations []KindValidation `json:"validations,omitempty"`
}

// InputName is the name of an input or output of a module.
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[a-z_][0-9a-z_]*$`
type InputName string

// KindValidation is a rule about spec.
type KindValidation struct {
	// Expression of CEL that is true for what is valid, such as self.min <= self.max.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Rule string `json:"rule"`

	// What users read where it is not.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}

// KindDeletion says what becomes of what was made.
type KindDeletion struct {
	// Whether the infrastructure of an object is destroyed with it.
	// +kubebuilder:default=true
	// +optional
	Destroy *bool `json:"destroy,omitempty"`

	// What becomes of objects when this definition is deleted: Refuse waits until there are none; Keep removes them, and leaves their infrastructure and its states.
	// +kubebuilder:default=Refuse
	// +optional
	Orphan OrphanPolicy `json:"orphan,omitempty"`
}

// OrphanPolicy says what becomes of objects whose definition goes.
// +kubebuilder:validation:Enum=Refuse;Keep
type OrphanPolicy string

// OrphanKeep removes objects, and keeps their resources.
const OrphanKeep OrphanPolicy = "Keep"

// KindOutputs says which outputs users get.
type KindOutputs struct {
	// Name of the Secret beside each object, in which {name} and {singular} stand for those of the object. Default {singular}-{name}-outputs.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[0-9a-z{}.-]+$`
	// +kubebuilder:validation:XValidation:rule="self.contains('{name}') && self.replace('{name}', '').replace('{singular}', '').matches('^[0-9a-z.-]*$')",message="it has {name} in it, and nothing else in braces than {singular}"
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// Outputs that users get, in the Secret.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Include []InputName `json:"include,omitempty"`

	// Outputs whose values are in status.outputValues too. Sensitive ones are left out.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Status []InputName `json:"status,omitempty"`

	// Labels of the Secret.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('okara.dev/'))",message="labels okara.dev/ are the operator's"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Who may read the Secret and the text of a plan, in the namespace of each object.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Readers []KindReader `json:"readers,omitempty"`
}

// KindReader is who may read outputs.
// +kubebuilder:validation:XValidation:rule="has(self.namespace) == (self.kind == 'ServiceAccount')",message="a ServiceAccount has a namespace, users and groups have none"
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
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// KindUpgrade says which newer versions objects take by themselves.
type KindUpgrade struct {
	// Of the versions that module.version allows: Manual none, Patch those that change only the patch number, Minor those of the same major number, Any every newer one.
	// +kubebuilder:default=Manual
	// +optional
	Policy UpgradePolicy `json:"policy,omitempty"`

	// Objects that take a change at a time. The rest waits, and stays as it is when one of them fails.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
}

// UpgradePolicy says which newer versions are taken.
// +kubebuilder:validation:Enum=Manual;Patch;Minor;Any
type UpgradePolicy string

// Values of UpgradePolicy other than Manual.
const (
	UpgradePatch UpgradePolicy = "Patch"
	UpgradeMinor UpgradePolicy = "Minor"
	UpgradeAny   UpgradePolicy = "Any"
)

// KindDashboard is a card of the portal.
type KindDashboard struct {
	// What the card is called.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Title string `json:"title,omitempty"`

	// Where it is listed.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Category string `json:"category,omitempty"`

	// Name of an icon.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-z-]+$`
	// +optional
	Icon string `json:"icon,omitempty"`

	// Words to search for.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	// +optional
	Tags []string `json:"tags,omitempty"`

	// What it is for.
	// +kubebuilder:validation:MaxLength=2000
	// +optional
	Description string `json:"description,omitempty"`
}

// ModuleKindStatus says what became of a definition.
type ModuleKindStatus struct {
	RunStatus `json:",inline"`

	// The version that new objects get.
	// +optional
	Module *ResolvedModule `json:"module,omitempty"`

	// An object of the kind to begin with, in YAML.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Example string `json:"example,omitempty"`

	// Number of objects of the kind.
	// +optional
	Objects int32 `json:"objects,omitempty"`

	// Number of objects that do not have what the definition says now.
	// +optional
	Outdated int32 `json:"outdated,omitempty"`
}

// ResolvedModule is a version of a module, as it was found in the registry.
type ResolvedModule struct {
	// The version.
	Version string `json:"version"`

	// Digest of its manifest.
	Digest string `json:"digest"`
}

// ModuleKind is a definition: it makes a module of the registry a kind of Kubernetes, whose objects tofu-controller runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=okkind,categories=okara
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.names.plural",message="metadata.name has to be spec.names.plural"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.names.kind`
// +kubebuilder:printcolumn:name="Module",type=string,JSONPath=`.spec.module.address`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.module.version`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModuleKind struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModuleKindSpec `json:"spec"`
	// +optional
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
