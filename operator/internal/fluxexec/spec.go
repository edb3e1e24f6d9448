// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxModule is the largest archive of a module, in bytes, that tofu-controller's
	// runner takes as it is installed.
	MaxModule = 4 << 20
	// maxName leaves room for what controllers put before and behind a name.
	maxName = 53
)

// Drift says what becomes of resources that somebody changed.
type Drift string

// Ways with drift.
const (
	DriftRepair Drift = "Repair" // the next run changes them back, or has a plan for it that waits; what "" is
	DriftReport Drift = "Report" // the run tells and changes nothing
	DriftIgnore Drift = "Ignore" // nobody looks: a run is made when something of the Spec changes
)

// Approval says who lets a plan be applied.
type Approval string

// Ways of approval.
const (
	ApprovalAuto   Approval = "Auto"   // nobody has to; what "" is
	ApprovalManual Approval = "Manual" // each plan waits for [Executor.Approve]
	ApprovalNone   Approval = "None"   // nothing is ever applied: the run compares
)

// Spec is a run of a module.
type Spec struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"` // of each object
	Labels    map[string]string `json:"labels,omitempty"`
	// UID is that of the object that the run is made for. [Executor] demands it: it is
	// how objects of the operator are told from those of others.
	UID types.UID `json:"uid,omitempty"`
	// Attempt names a try. Another one is a run, though nothing else changed.
	Attempt string `json:"attempt,omitempty"`
	// Request is any string. Another one asks for a run at once; the callers put into it
	// what users asked for, and what changes with each Secret that the run reads (T16).
	Request string `json:"request,omitempty"`

	Module             Module                     `json:"module"`
	ServiceAccountName string                     `json:"serviceAccountName,omitempty"` // of the runner; "": tf-runner
	Runner             *Runner                    `json:"runner,omitempty"`
	Variables          map[string]json.RawMessage `json:"variables,omitempty"`
	VariablesFrom      []VariablesFrom            `json:"variablesFrom,omitempty"` // they win
	State              State                      `json:"state"`
	// Encryption is the key of a Secret with a configuration of OpenTofu's encryption of
	// state and plans, as TF_ENCRYPTION takes it.
	Encryption *SecretKey `json:"encryption,omitempty"`
	// CLIConfigSecret names a Secret with the one key okara.tfrc, a CLI configuration.
	CLIConfigSecret string `json:"cliConfigSecret,omitempty"`

	Approval Approval `json:"approval,omitempty"`
	// Gate is the URL at which tofu-controller shows each plan of a Manual run to the
	// plan gate of the operator. Without it no plan can be approved by [Executor].
	Gate string `json:"gate,omitempty"`

	Interval      metav1.Duration `json:"interval,omitzero"`      // between two runs; 0: 10m
	RetryInterval metav1.Duration `json:"retryInterval,omitzero"` // after a failure; 0: that of the controller, 15s, which grows
	LockTimeout   metav1.Duration `json:"lockTimeout,omitzero"`   // how long a run waits for the lock of the state; 0: it fails at once
	Drift         Drift           `json:"drift,omitempty"`
	Retries       int             `json:"retries,omitempty"` // of a run that failed, until something changes; 0: no bound
	// ForceUnlock is the id of a lock of the state that the next run breaks.
	ForceUnlock string `json:"forceUnlock,omitempty"`
	// Suspend stops the next run. It stops no run that goes on, and no deletion.
	Suspend bool `json:"suspend,omitempty"`
	// Keep leaves the resources alone when the run is deleted.
	Keep bool `json:"keep,omitempty"`

	HealthChecks []HealthCheck `json:"healthChecks,omitempty"` // after each run
	// Outputs are the ones that OutputsSecret gets; without any it gets all.
	Outputs       []string `json:"outputs,omitempty"`
	OutputsSecret string   `json:"outputsSecret,omitempty"` // "": outputs are written nowhere
}

// Module is a version of a module in a registry.
type Module struct {
	Repository string  `json:"repository"`           // HOST[:PORT]/NAME
	Digest     string  `json:"digest"`               // sha256:…, of the manifest
	Version    string  `json:"version,omitempty"`    // only in the names of plans
	Size       int64   `json:"size,omitempty"`       // of the archive, in bytes; 0: not known
	Path       string  `json:"path,omitempty"`       // of the root module inside
	PullSecret string  `json:"pullSecret,omitempty"` // of type kubernetes.io/dockerconfigjson
	CASecret   string  `json:"caSecret,omitempty"`   // its key ca.crt has the registry's CA
	PlainHTTP  bool    `json:"plainHTTP,omitempty"`
	Verify     *Verify `json:"verify,omitempty"`
	// Provider logs in with the identity of a cloud: aws, azure or gcp; with that of
	// ServiceAccountName, or with that of source-controller.
	Provider           string `json:"provider,omitempty"`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Verify says whose signature by cosign a module must have.
type Verify struct {
	Secret     string     `json:"secret,omitempty"` // its keys *.pub have public keys; "": keyless
	Identities []Identity `json:"identities,omitempty"`
}

// Identity is who signs without a key; both are regular expressions.
type Identity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Runner is what differs from the runner that tofu-controller starts by itself.
type Runner struct {
	Image        string                       `json:"image,omitempty"`
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	Env          []corev1.EnvVar              `json:"env,omitempty"`
}

// HealthCheck is asked after a run. Address and URL may have outputs as {{.NAME}}.
type HealthCheck struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`              // tcp or http
	Address string          `json:"address,omitempty"` // of tcp
	URL     string          `json:"url,omitempty"`     // of http
	Timeout metav1.Duration `json:"timeout,omitzero"`  // 0: 20s
}

// SecretKey is a key of a Secret of the run's namespace.
type SecretKey struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// VariablesFrom are values that a Secret or a ConfigMap has.
type VariablesFrom struct {
	Secret    string            `json:"secret,omitempty"`
	ConfigMap string            `json:"configMap,omitempty"`
	Keys      map[string]string `json:"keys"` // variable: key
}

// State is where okara serve keeps the state.
type State struct {
	Address     string  `json:"address"`               // URL/state/NAME/WORKSPACE
	TokenSecret string  `json:"tokenSecret,omitempty"` // its key token has a token with the right to write it
	CA          *CAFrom `json:"ca,omitempty"`
}

// CAFrom is a key of a ConfigMap with certificates, in PEM.
type CAFrom struct {
	ConfigMap string `json:"configMap"`
	Key       string `json:"key"`
}
