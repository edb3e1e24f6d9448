// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds of this package.
const Group = "okara.dev"

// Group and version of the kinds that ModuleKinds define.
const (
	KindsGroup   = "apps.okara.dev"
	KindsVersion = "v1alpha1"
)

// GroupVersion is the version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Depot{}, &DepotList{}, &Module{}, &ModuleList{}, &Provider{}, &ProviderList{}, &Version{}, &VersionList{},
		&AccessRule{}, &AccessRuleList{}, &ModuleKind{}, &ModuleKindList{}, &Template{}, &TemplateList{}, &Instance{}, &InstanceList{},
		&Approval{}, &ApprovalList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Labels and annotations.
const (
	LabelManaged  = "okara.dev/managed"  // on objects that the operator created
	LabelUID      = "okara.dev/uid"      // UID of the object that it was created for
	LabelKind     = "okara.dev/kind"     // kind of that object, if it is a generated one
	LabelObject   = "okara.dev/object"   // name of that object
	LabelRecord   = "okara.dev/record"   // of a record of the operator: the UID that identifies an object
	LabelDepot    = "okara.dev/depot"    // name of the Depot that a Module or Provider was created for
	LabelModule   = "okara.dev/module"   // of a Version that the operator created: name of its Module
	LabelProvider = "okara.dev/provider" // or of its Provider
	LabelTenant   = "okara.dev/tenant"   // of a Namespace: the operator may read the Secrets that objects name

	// Labels of the namespace that was created for an instance, for users and policies.
	LabelRuns     = "okara.dev/runs"     // the namespace has runs and cannot be deleted before them
	LabelOwner    = "okara.dev/owner"    // a hash of the owner
	LabelTemplate = "okara.dev/template" // NAMESPACE.NAME
	LabelInstance = "okara.dev/instance" // ID
	LabelPooled   = "okara.dev/pooled"   // the instance was created for a pool

	// Annotations of an Instance.
	AnnotationCancel  = "okara.dev/cancel"      // any new value ends its run early
	AnnotationAbandon = "okara.dev/abandon"     // the name of the object: its resources are orphaned
	AnnotationAdopt   = "okara.dev/adopt-state" // "true": the object adopts an existing workspace
	AnnotationUnlock  = "okara.dev/unlock"      // ID of a lock of the state, which the next run breaks
	AnnotationAsked   = "okara.dev/asked"       // KEY=DIGEST of the last request of the portal, which may be repeated

	AnnotationRequest   = "okara.dev/requestedAt" // any new value requests a run
	AnnotationAddresses = "okara.dev/addresses"   // of a Namespace: the addresses that it may use
	AnnotationTakeOver  = "okara.dev/take-over"   // of a Namespace: UIDs of earlier namespaces whose addresses it takes over
	AnnotationReleased  = "okara.dev/released"    // of a Module or Provider: the Depot whose entry it was
	AnnotationUse       = "okara.dev/use"         // of a Secret: the hosts that it may be sent to

	// FinalizerRegistry keeps an object until its deletion policy was carried out.
	FinalizerRegistry = "okara.dev/registry"
	// FinalizerRun keeps an Instance until its resources are destroyed.
	FinalizerRun = "okara.dev/run"
	// FinalizerDefinition keeps a ModuleKind until no object of its kind is left.
	FinalizerDefinition = "okara.dev/definition"
)

// Types of conditions.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
	// ConditionEstablished of a ModuleKind says that its CRD, its roles and the watch of
	// its objects exist.
	ConditionEstablished = "Established"
	// Conditions of an object that runs, besides Ready. Each exists only while it is
	// true.
	ConditionDrifted          = "Drifted"
	ConditionWaiting          = "Waiting"
	ConditionAwaitingApproval = "AwaitingApproval"
	ConditionUpdateAvailable  = "UpdateAvailable"
)

// Reasons of conditions and events.
const (
	ReasonSynced              = "Synced"
	ReasonBehind              = "Behind"
	ReasonSuspended           = "Suspended"
	ReasonPublished           = "Published"
	ReasonPruned              = "Pruned"
	ReasonDrift               = "Drift"
	ReasonHeld                = "Held"
	ReasonFailed              = "Failed"
	ReasonRateLimited         = "RateLimited"
	ReasonInvalid             = "Invalid"
	ReasonAddressNotAllowed   = "AddressNotAllowed"
	ReasonAddressTaken        = "AddressTaken"
	ReasonSecretNotAllowed    = "SecretNotAllowed"
	ReasonSecretMissing       = "SecretMissing"
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	ReasonSourceNotAllowed    = "SourceNotAllowed"
	ReasonNameTaken           = "NameTaken"
	ReasonTargetMissing       = "TargetMissing"
	ReasonEntriesFailed       = "EntriesFailed"
	ReasonIssuerUnknown       = "IssuerUnknown"
	ReasonScannerMissing      = "ScannerMissing"
	ReasonTooManyRules        = "TooManyRules"
	ReasonModuleMissing       = "ModuleMissing"
	ReasonQuotaExceeded       = "QuotaExceeded"
	ReasonRefused             = "Refused"
	ReasonEstablished         = "Established"
	ReasonVersionMissing      = "VersionMissing"
	ReasonNotVerified         = "NotVerified"
	ReasonModuleTooLarge      = "ModuleTooLarge"
	ReasonSchemaInvalid       = "SchemaInvalid"
	ReasonSchemaNarrowed      = "SchemaNarrowed"
	ReasonObjectsExist        = "ObjectsExist"
	ReasonExecutorMissing     = "ExecutorMissing"
	ReasonDigestMismatch      = "DigestMismatch"
	ReasonUpgradeStopped      = "UpgradeStopped"
	ReasonRunning             = "Running"
	ReasonPlanned             = "Planned"
	ReasonApplied             = "Applied"
	ReasonRejected            = "Rejected"
	ReasonDestroying          = "Destroying"
	ReasonDestroyFailed       = "DestroyFailed"
	ReasonStateExists         = "StateExists"
	ReasonStateNotOwned       = "StateNotOwned"
	ReasonOutputsConflict     = "OutputsConflict"
)
