// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Chart says where a Helm chart is: exactly one of oci, helm and git.
// +kubebuilder:validation:XValidation:rule="[has(self.oci), has(self.helm), has(self.git)].filter(x, x).size() == 1",message="exactly one of oci, helm and git"
type Chart struct {
	// An OCI repository, oci://HOST/NAME, and a version or constraint of its tags, or a digest.
	OCI *ChartOCI `json:"oci,omitempty"`

	// A Helm repository over HTTPS.
	Helm *ChartHelm `json:"helm,omitempty"`

	// A git repository.
	Git *ChartGit `json:"git,omitempty"`

	// Secret in the namespace of the Template for fetching the chart, in the format of
	// source-controller: kubernetes.io/dockerconfigjson for oci, username and password for
	// helm and git, or identity and known_hosts for git by ssh. Empty: it is fetched anonymously.
	SecretRef *SecretRef `json:"secretRef,omitempty"`
}

// ChartOCI is a chart in an OCI registry.
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.digest)",message="exactly one of version and digest"
type ChartOCI struct {
	// oci://HOST/NAME
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^oci://[^/ ]+/.+$`
	URL string `json:"url"`

	// Exact version, or a range in Helm's syntax.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// Digest of the manifest.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// ChartHelm is a chart of a Helm repository.
type ChartHelm struct {
	// https://HOST/PATH
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://.+$`
	URL string `json:"url"`

	// Name of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`

	// Exact version, or a range in Helm's syntax.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
}

// ChartGit is a chart in a git repository.
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.commit)].filter(x, x).size() == 1",message="exactly one of branch, tag, semver and commit"
type ChartGit struct {
	// https://HOST/PATH or ssh://HOST/PATH
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(https|ssh)://.+$`
	URL string `json:"url"`

	// Folder of the chart. Empty: the top folder.
	// +kubebuilder:validation:MaxLength=200
	Path string `json:"path,omitempty"`

	// Branch whose head is used.
	// +kubebuilder:validation:MaxLength=200
	Branch string `json:"branch,omitempty"`

	// A tag.
	// +kubebuilder:validation:MaxLength=200
	Tag string `json:"tag,omitempty"`

	// Semver range whose highest tag is used.
	// +kubebuilder:validation:MaxLength=128
	Semver string `json:"semver,omitempty"`

	// Full hash of a commit.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{40}$`
	Commit string `json:"commit,omitempty"`
}
