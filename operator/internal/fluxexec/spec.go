// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxModule is the largest archive, in bytes, that tofu-controller's runner takes by default.
	MaxModule = 4 << 20
	// maxName leaves room for the prefixes and suffixes that controllers add to a name.
	maxName = 53
)

// Drift says how a run treats resources that were changed outside it.
type Drift string

// Values of Drift.
const (
	DriftRepair Drift = "Repair" // the default: the next run reverts the changes, or plans that and waits for approval
	DriftReport Drift = "Report" // the run reports drift and changes nothing
	DriftIgnore Drift = "Ignore" // drift is not detected: a run starts only when the Spec changes
)

// Approval says how plans are approved.
type Approval string

// Values of Approval.
const (
	ApprovalAuto   Approval = "Auto"   // the default: plans need no approval
	ApprovalManual Approval = "Manual" // each plan waits for [Executor.Approve]
	ApprovalNone   Approval = "None"   // nothing is ever applied: the run only compares
)

// Spec is a run of a module.
type Spec struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"` // of each object
	Labels    map[string]string `json:"labels,omitempty"`
	// UID is of the object that the run is for; [Executor] requires it.
	UID types.UID `json:"uid,omitempty"`
	// Attempt names a try. A new value starts a run even if nothing else changed.
	Attempt string `json:"attempt,omitempty"`
	// Request is any string; a new value runs at once. It has users' requests, and what changes
	// with each Secret that the run reads (T16).
	Request string `json:"request,omitempty"`

	Module             Module                     `json:"module"`
	ServiceAccountName string                     `json:"serviceAccountName,omitempty"` // of the runner; "": tf-runner
	Runner             *Runner                    `json:"runner,omitempty"`
	Variables          map[string]json.RawMessage `json:"variables,omitempty"`
	VariablesFrom      []VariablesFrom            `json:"variablesFrom,omitempty"` // override Variables
	State              State                      `json:"state"`
	// Encryption is a Secret's key with OpenTofu's TF_ENCRYPTION.
	Encryption *SecretKey `json:"encryption,omitempty"`
	// CLIConfigSecret names a Secret with the one key okara.tfrc, a CLI configuration.
	CLIConfigSecret string `json:"cliConfigSecret,omitempty"`

	Approval Approval `json:"approval,omitempty"`
	// Gate is the URL at which Manual plans are shown to the gate; without it none is approved.
	Gate string `json:"gate,omitempty"`

	Interval      metav1.Duration `json:"interval,omitzero"`      // between two runs; 0: 10m
	RetryInterval metav1.Duration `json:"retryInterval,omitzero"` // after a failure; 0: the controller's default, 15s, which grows
	LockTimeout   metav1.Duration `json:"lockTimeout,omitzero"`   // how long a run waits for the lock of the state; 0: it fails at once
	Drift         Drift           `json:"drift,omitempty"`
	Retries       int             `json:"retries,omitempty"` // of a failed run, until something changes; 0: unlimited
	// ForceUnlock is the ID of a lock of the state that the next run breaks.
	ForceUnlock string `json:"forceUnlock,omitempty"`
	// Suspend stops the next run. It affects neither a run in progress nor a deletion.
	Suspend bool `json:"suspend,omitempty"`
	// Keep leaves the resources in place when the run is deleted.
	Keep bool `json:"keep,omitempty"`
	// Leaves are addresses that deletion leaves behind, for Status.Left.
	Leaves []string `json:"leaves,omitempty"`

	HealthChecks []HealthCheck `json:"healthChecks,omitempty"` // after each run
	// Outputs lists the outputs that OutputsSecret gets. If empty, it gets all.
	Outputs       []string `json:"outputs,omitempty"`
	OutputsSecret string   `json:"outputsSecret,omitempty"` // "": outputs are not written
}

// Module is a version of a module in a registry.
type Module struct {
	Repository string  `json:"repository"`           // HOST[:PORT]/NAME
	Digest     string  `json:"digest"`               // sha256:…, of the manifest
	Version    string  `json:"version,omitempty"`    // only in the names of plans
	Size       int64   `json:"size,omitempty"`       // of the archive, in bytes; 0: unknown
	Path       string  `json:"path,omitempty"`       // of the root module in the archive
	PullSecret string  `json:"pullSecret,omitempty"` // of type kubernetes.io/dockerconfigjson
	CASecret   string  `json:"caSecret,omitempty"`   // its key ca.crt has the registry's CA
	PlainHTTP  bool    `json:"plainHTTP,omitempty"`
	Verify     *Verify `json:"verify,omitempty"`
	// Provider is the cloud whose identity logs in: aws, azure or gcp. The identity is
	// that of ServiceAccountName, or of source-controller if that is empty.
	Provider           string `json:"provider,omitempty"`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Verify says which cosign signature a module must have.
type Verify struct {
	Secret string `json:"secret,omitempty"` // its keys *.pub have public keys; "": keyless
	// Identities are the keyless signers, in regular expressions.
	Identities []sourcev1.OIDCIdentityMatch `json:"identities,omitempty"`
}

// Runner overrides properties of tofu-controller's default runner.
type Runner struct {
	Image        string                       `json:"image,omitempty"`
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	Env          []corev1.EnvVar              `json:"env,omitempty"`
}

// HealthCheck is performed after a run. Address and URL may contain outputs as {{.NAME}}.
type HealthCheck struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`              // tcp or http
	Address string          `json:"address,omitempty"` // of tcp
	URL     string          `json:"url,omitempty"`     // of http
	Timeout metav1.Duration `json:"timeout,omitzero"`  // 0: 20s
}

// SecretKey is a key of a Secret in the run's namespace.
type SecretKey struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// VariablesFrom sets variables from a Secret or a ConfigMap.
type VariablesFrom struct {
	Secret    string            `json:"secret,omitempty"`
	ConfigMap string            `json:"configMap,omitempty"`
	Keys      map[string]string `json:"keys"` // variable: key
}

// State is where okara serve keeps the state.
type State struct {
	Address     string  `json:"address"`               // URL/state/NAME/WORKSPACE
	TokenSecret string  `json:"tokenSecret,omitempty"` // its key token holds a token with the right to write the state
	CA          *CAFrom `json:"ca,omitempty"`
}

// CAFrom is a key of a ConfigMap with certificates, in PEM.
type CAFrom struct {
	ConfigMap string `json:"configMap"`
	Key       string `json:"key"`
}
