// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxNamed is how many objects a message names that a schema does not fit.
const maxNamed = 5

// Annotations of a CRD: the spec.module it was chosen for, its version, and the one whose schema
// did not fit, with the generation. A backup that restores the CRD restores them.
const (
	annotationModule   = "okara.dev/module"
	annotationVersion  = "okara.dev/module-version"
	annotationNarrowed = "okara.dev/narrowed"
)

// serveKind writes a kind's CRD and roles; crd nil: none yet. A returned one is served.
func (d *definitions) serveKind(ctx context.Context, def *v1alpha1.ModuleKind, n now, crd *apiextensions.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	switch {
	case crd == nil && n.kind == nil:
		return nil, nil
	case crd == nil:
		crd = defaultedCRD(n.kind)
		fluxobj.Mark(crd, def.UID)
		annotateCRD(crd, def, n.found.Version)
		if err := d.Client.Create(ctx, crd); err != nil {
			return nil, err
		}
	case !fluxobj.Ours(crd, def.UID):
		return nil, &fluxobj.TakenError{Kind: "CustomResourceDefinition", Key: client.ObjectKeyFromObject(crd)}
	}
	var wrong error
	if n.kind != nil && crd.DeletionTimestamp == nil {
		wrong = d.widenSchema(ctx, n, crd)
	}
	if err := d.writeRoles(ctx, def); err != nil {
		return nil, err
	}
	if c := apihelpers.FindCRDCondition(crd, apiextensions.NamesAccepted); c != nil && c.Status == apiextensions.ConditionFalse {
		return nil, &verdict.Problem{Reason: v1alpha1.ReasonNameTaken, Message: "another kind already uses a name in spec.names: " + c.Message, Retry: true}
	}
	if isEstablished(crd) {
		return crd, wrong
	}
	return nil, cmp.Or[error](wrong, &verdict.Problem{Reason: v1alpha1.ReasonRunning, Message: "the API server does not serve the kind yet", Retry: true})
}

// isEstablished reports whether a CRD is, or was, served; else objects are another's.
func isEstablished(crd *apiextensions.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensions.Established)
}

// defaultedCRD is the CRD of a kind with the defaults that the API server sets.
func defaultedCRD(k *kindspec.Kind) *apiextensions.CustomResourceDefinition {
	crd := k.CRD()
	apiextensions.SetObjectDefaults_CustomResourceDefinition(crd)
	return crd
}

// annotateCRD records for what a version was chosen, and reports whether that is new.
func annotateCRD(crd *apiextensions.CustomResourceDefinition, def *v1alpha1.ModuleKind, version string) bool {
	module := chosenFor(def)
	same := crd.Annotations[annotationModule] == module && crd.Annotations[annotationVersion] == version && crd.Annotations[annotationNarrowed] == ""
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, annotationModule, module)
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, annotationVersion, version)
	delete(crd.Annotations, annotationNarrowed)
	return !same
}

// widenSchema gives a CRD a kind's schema, unless an object would be invalid. One that did not fit
// waits for a change or another version, not for an object to go.
func (d *definitions) widenSchema(ctx context.Context, n now, crd *apiextensions.CustomResourceDefinition) error {
	want := defaultedCRD(n.kind)
	narrowed := fmt.Sprintf("%s %d", n.found.Version, n.generation)
	if isEstablished(crd) && !equality.Semantic.DeepEqual(crd.Spec.Versions[0].Schema, want.Spec.Versions[0].Schema) {
		waits := crd.Annotations[annotationNarrowed] == narrowed
		err := d.checkFits(ctx, n.kind)
		if err == nil && waits {
			err = &verdict.Problem{Reason: v1alpha1.ReasonSchemaNarrowed, Message: fmt.Sprintf("version %s was not compatible with existing objects when it was found; change spec.module.version to use it", n.found.Version)}
		}
		if isProblem(err) && !waits {
			metav1.SetMetaDataAnnotation(&crd.ObjectMeta, annotationNarrowed, narrowed)
			err = cmp.Or(d.Client.Update(ctx, crd), err)
		}
		if err != nil {
			return err
		}
	}
	if !annotateCRD(crd, n.kind.Definition, n.found.Version) && equality.Semantic.DeepEqual(crd.Spec, want.Spec) {
		return nil
	}
	crd.Spec = want.Spec
	return d.Client.Update(ctx, crd)
}

// checkFits returns an error if an object would be invalid under the schema of a kind.
func (d *definitions) checkFits(ctx context.Context, k *kindspec.Kind) error {
	count := 0
	var examples []string
	err := fluxobj.EachObject(ctx, d.Client, k.GroupVersionKind(), func(o *unstructured.Unstructured) error {
		if wrong := k.Invalid(o); len(wrong) > 0 && o.GetDeletionTimestamp() == nil {
			if count++; count <= maxNamed {
				examples = append(examples, fmt.Sprintf("%s/%s: %v", o.GetNamespace(), o.GetName(), wrong[0]))
			}
		}
		return nil
	})
	if err != nil || count == 0 {
		return err
	}
	noun := "objects"
	if count == 1 {
		noun = "object"
	}
	return &verdict.Problem{Reason: v1alpha1.ReasonSchemaNarrowed, Message: fmt.Sprintf("%d %s would become invalid (%s); the schema stays as it was", count, noun, strings.ReplaceAll(strings.Join(examples, "; "), "\n", " "))}
}

func (d *definitions) writeRoles(ctx context.Context, def *v1alpha1.ModuleKind) error {
	for _, want := range kindspec.ClusterRoles(def) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: want.Name}}
		if _, err := fluxobj.Write(ctx, d.Client, role, def.UID, func(r *rbacv1.ClusterRole) error {
			r.Labels = want.Labels
			r.Rules = want.Rules
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
