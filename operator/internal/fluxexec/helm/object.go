// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// httpRepository is a HelmRepository, source-controller's v1.
type httpRepository struct {
	fluxobj.Meta `json:",inline"`
	Spec         httpSpec `json:"spec"`
}

type httpSpec struct {
	URL           string           `json:"url"`
	Interval      metav1.Duration  `json:"interval"`
	SecretRef     *fluxobj.NameRef `json:"secretRef,omitempty"`
	CertSecretRef *fluxobj.NameRef `json:"certSecretRef,omitempty"`
}

// gitRepository is source-controller's v1.
type gitRepository struct {
	fluxobj.Meta `json:",inline"`
	Spec         gitSpec `json:"spec"`
}

type gitSpec struct {
	URL       string           `json:"url"`
	Interval  metav1.Duration  `json:"interval"`
	Ref       gitRef           `json:"ref"`
	SecretRef *fluxobj.NameRef `json:"secretRef,omitempty"`
}

type gitRef struct {
	Branch string `json:"branch,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Semver string `json:"semver,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// release is a HelmRelease, helm-controller's v2.
type release struct {
	fluxobj.Meta `json:",inline"`
	Spec         releaseSpec `json:"spec"`
}

type releaseSpec struct {
	Interval           metav1.Duration  `json:"interval"`
	Timeout            *metav1.Duration `json:"timeout,omitempty"`
	Suspend            bool             `json:"suspend"`
	Chart              *chartTemplate   `json:"chart,omitempty"`
	ChartRef           *sourceRef       `json:"chartRef,omitempty"`
	ServiceAccountName string           `json:"serviceAccountName"`
	ReleaseName        string           `json:"releaseName"`
	TargetNamespace    string           `json:"targetNamespace"`
	StorageNamespace   string           `json:"storageNamespace"`
	Install            action           `json:"install"`
	Upgrade            action           `json:"upgrade"`
	DriftDetection     driftDetection   `json:"driftDetection"`
	HealthChecks       []HealthCheck    `json:"healthCheckExprs,omitempty"`
	Values             json.RawMessage  `json:"values"`
	ValuesFrom         []valuesFrom     `json:"valuesFrom,omitempty"`
}

type chartTemplate struct {
	Metadata chartMeta `json:"metadata"`
	Spec     chartSpec `json:"spec"`
}

type chartMeta struct {
	Labels map[string]string `json:"labels,omitempty"`
}

type chartSpec struct {
	Chart             string    `json:"chart"`
	Version           string    `json:"version,omitempty"`
	SourceRef         sourceRef `json:"sourceRef"`
	ReconcileStrategy string    `json:"reconcileStrategy,omitempty"`
}

// httpChart is a HelmChart, source-controller's v1.
type httpChart struct {
	fluxobj.Meta `json:",inline"`
	Spec         httpChartSpec `json:"spec"`
}

type httpChartSpec struct {
	chartSpec `json:",inline"`
	Interval  metav1.Duration `json:"interval"`
}

type sourceRef struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type action struct {
	Remediation remediation `json:"remediation"`
}

type remediation struct {
	Retries int `json:"retries"`
}

type driftDetection struct {
	Mode string `json:"mode"`
}

type valuesFrom struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	ValuesKey  string `json:"valuesKey,omitempty"`
	TargetPath string `json:"targetPath,omitempty"`
	Optional   bool   `json:"optional,omitempty"`
}
