// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy says how to handle an upstream version whose content changed.
// +kubebuilder:validation:Enum=Immutable;Editions
type Policy string

// DeletionPolicy says what happens to published versions when an object is deleted. Each
// field says which values it takes: an enumeration of the type would replace the field's.
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	DeletionKeep   DeletionPolicy = "Keep"
	DeletionYank   DeletionPolicy = "Yank"
	DeletionDelete DeletionPolicy = "Delete" // yank, then remove the tags
)

// EntrySpec is what Modules, Providers and the entries of a Depot have in common.
type EntrySpec struct {
	// Constraint that selects versions, as in a version argument of OpenTofu. Empty: every release.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^\s*([=!<>~]*\s*[0-9xX*][0-9A-Za-z.*+-]*\s*(,\s*|$))*$`
	Versions string `json:"versions,omitempty"`

	// Maximum number of versions that are considered: the newest that versions allows. 0: no limit.
	// +kubebuilder:validation:Minimum=0
	Limit *int32 `json:"limit,omitempty"`

	// Number of the newest versions that retention keeps. 0: all of them.
	// +kubebuilder:validation:Minimum=0
	Keep *int32 `json:"keep,omitempty"`

	// Versions that are always taken and never removed, regardless of versions and keep.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=set
	Pin []string `json:"pin,omitempty"`

	// Credential for the origin. Empty: it is read anonymously.
	Auth *Auth `json:"auth,omitempty"`

	// Scan versions before they are published, and do not publish those that the scan blocks.
	Scan *ScanPolicy `json:"scan,omitempty"`

	// Which new versions require approval.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
}

// ScanPolicy configures scans. The scanner is set on the operator.
type ScanPolicy struct {
	// Lowest severity of findings that block a version. Empty: none do.
	// +kubebuilder:validation:Enum=Low;Medium;High;Critical
	Block string `json:"block,omitempty"`

	// Maximum age of the newest report before a version is scanned again, such as 168h.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h')",message="must be at least 1h"
	MaxAge *Duration `json:"maxAge,omitempty"`

	// The Git repository of the source: github.com/OWNER/REPOSITORY or git::https://HOST/PATH. Its dependencies at the tag of a version are scanned, too.
	// +kubebuilder:validation:MaxLength=1024
	SourceRepository string `json:"sourceRepository,omitempty"`
}

// Auth names a credential.
type Auth struct {
	// A Secret of the same namespace with the key token, or with githubAppID, githubInstallID and githubPrivateKey, or with ssh-privatekey and known_hosts. Its annotation okara.dev/use lists the hosts that it may be sent to.
	SecretRef SecretRef `json:"secretRef"`
}

// SecretRef names a Secret of the same namespace.
type SecretRef struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Values of an approval mode other than None. A Template also has Request.
const (
	ApprovalVersion = "Version" // each new version that fulfils no rule
	ApprovalPlan    = "Plan"    // each plan, before it is applied
)

// ApprovalPolicy says which new versions require approval. A version that fulfils any of the rules passes without approval.
type ApprovalPolicy struct {
	// What requires an Approval: Version (each new version that fulfils no rule) or None.
	// +kubebuilder:validation:Enum=None;Version
	Mode string `json:"mode"`

	// Releases that change only the patch number of an existing release require no Approval.
	Patch bool `json:"patch,omitempty"`

	// Providers that are signed by one of these OpenPGP keys require no Approval. Each is a key ID of at least 16 digits.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	SignedBy []string `json:"signedBy,omitempty"`

	// Versions that the operator has known for at least this long, such as 72h, require no Approval.
	OlderThan *Duration `json:"olderThan,omitempty"`
}

// Duration is a length of time such as 90s, 30m or 72h. It keeps its notation, and is
// therefore not a [metav1.Duration]: a client that reads an object into that and writes it
// back, as every Go client does, turns 60m into 1h0m0s. GitOps tools would show that as a
// change, and the rule that the ttl of an Instance is set once would refuse later writes of
// the portal. Other values that [metav1.Duration] accepts, such as -1h and 1.5h, are invalid.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^(0s|([1-9][0-9]*h)?([1-9][0-9]*m)?([1-9][0-9]*s)?)$`
type Duration string

// Length returns the duration, or 0 if d is nil or violates the schema.
func (d *Duration) Length() time.Duration {
	if d == nil {
		return 0
	}
	length, _ := time.ParseDuration(string(*d))
	return length
}

// RunSpec says how often an object is reconciled, and what happens to its versions on deletion.
type RunSpec struct {
	// Interval between checks of the origin. 0s: only once after each change of this object.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1m')",message="must be 0s, or at least 1m"
	Interval *Duration `json:"interval,omitempty"`

	// Stops runs, but not deletion.
	Suspend bool `json:"suspend,omitempty"`

	// What happens to the published versions when this object is deleted: Keep them, Yank them, or Delete, which yanks them and removes their tags.
	// +kubebuilder:validation:Enum=Keep;Yank;Delete
	// +kubebuilder:default=Keep
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Number of the newest versions that get a Version object.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	VersionObjects *int32 `json:"versionObjects,omitempty"`
}

// RunStatus is the common status of objects that are reconciled by runs.
type RunStatus struct {
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
}

// EntryStatus is the result of the last run of a Module or Provider.
type EntryStatus struct {
	RunStatus `json:",inline"`

	// Latest version that clients select: the highest release that is not yanked.
	Latest string `json:"latest,omitempty"`

	// Number of published versions in the registry.
	Published int32 `json:"published,omitempty"`

	// Known versions, newest first, at most 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=version
	Versions []VersionSummary `json:"versions,omitempty"`

	// Not all versions are listed.
	Truncated bool `json:"truncated,omitempty"`

	// When a run last succeeded. A run that finds nothing new updates it at most once a day.
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
}

// VersionState is the state of a version in the registry.
// +kubebuilder:validation:Enum=Published;Deprecated;Yanked;Withdrawn;Waiting;Blocked;Rejected;Drift;Unknown
type VersionState string

// The states of a version.
const (
	StatePublished  VersionState = "Published"
	StateDeprecated VersionState = "Deprecated"
	StateYanked     VersionState = "Yanked"
	StateWithdrawn  VersionState = "Withdrawn" // yanked, and its tag removed
	StateWaiting    VersionState = "Waiting"   // for approval
	StateBlocked    VersionState = "Blocked"   // by a scan
	StateRejected   VersionState = "Rejected"  // by an Approval, and not published
	StateDrift      VersionState = "Drift"     // other content than was recorded
	StateUnknown    VersionState = "Unknown"   // neither the origin nor the registry has it
)

// VersionSummary is one version in a list.
type VersionSummary struct {
	// The version.
	Version string `json:"version"`

	// Digest of its manifest or index.
	Digest string `json:"digest,omitempty"`

	// State in the registry.
	State VersionState `json:"state"`
}
