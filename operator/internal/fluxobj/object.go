// SPDX-License-Identifier: Apache-2.0

package fluxobj

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Meta is what each object begins with.
type Meta struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        ObjectMeta `json:"metadata"`
}

// ObjectMeta is what is written of an object's metadata.
type ObjectMeta struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AnnotationAttempt of an object has the attempt that it is of.
const AnnotationAttempt = "okara.dev/attempt"

// Attempt is the annotation of one, nil where nobody counts.
func Attempt(attempt string) map[string]string {
	if attempt == "" {
		return nil
	}
	return map[string]string{AnnotationAttempt: attempt}
}

// Labels are the labels of an object that is made for the one of a UID; "": those alone.
func Labels(labels map[string]string, uid types.UID) map[string]string {
	if uid == "" {
		return labels
	}
	all := map[string]string{v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(uid)}
	for key, value := range maps.All(labels) {
		if _, ours := all[key]; !ours {
			all[key] = value
		}
	}
	return all
}

// Kinds of sources.
const (
	SourceVersion = "source.toolkit.fluxcd.io/v1"
	OCIKind       = "OCIRepository"
)

// OCIRepository is source-controller's v1.
type OCIRepository struct {
	Meta `json:",inline"`
	Spec OCIRepositorySpec `json:"spec"`
}

// OCIRepositorySpec has the fields that are written.
type OCIRepositorySpec struct {
	URL           string          `json:"url"`
	Ref           OCIRef          `json:"ref"`
	LayerSelector LayerSelector   `json:"layerSelector"`
	Interval      metav1.Duration `json:"interval"`
	SecretRef     *NameRef        `json:"secretRef,omitempty"`
	CertSecretRef *NameRef        `json:"certSecretRef,omitempty"`
	Insecure      bool            `json:"insecure,omitempty"`
	Verify        *Verify         `json:"verify,omitempty"`
	Provider      string          `json:"provider,omitempty"`
	Account       string          `json:"serviceAccountName,omitempty"`
}

// OCIRef names a version in one of three ways.
type OCIRef struct {
	Digest string `json:"digest,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Semver string `json:"semver,omitempty"`
}

// LayerSelector says which layer is taken.
type LayerSelector struct {
	MediaType string `json:"mediaType"`
	Operation string `json:"operation"`
}

// Copy takes the layer of a media type as it is.
func Copy(mediaType string) LayerSelector { return LayerSelector{mediaType, "copy"} }

// Verify says whose signature is demanded.
type Verify struct {
	Provider   string     `json:"provider"`
	SecretRef  *NameRef   `json:"secretRef,omitempty"`
	Identities []Identity `json:"matchOIDCIdentity,omitempty"`
}

// Identity is who signs without a key; both are regular expressions.
type Identity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// NameRef names an object of the same namespace.
type NameRef struct {
	Name string `json:"name"`
}

// Named is nil for "".
func Named(name string) *NameRef {
	if name == "" {
		return nil
	}
	return &NameRef{Name: name}
}

// Optional is nil for 0.
func Optional(d metav1.Duration) *metav1.Duration {
	if d.Duration == 0 {
		return nil
	}
	return &d
}
