// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/owned"
)

// useCredentials is what the annotation okara.dev/use of a Secret of the operator says of
// those that templates may name.
const useCredentials = "instances"

// copyCredentials copies the Secrets that a template names into the namespace of an
// instance.
func copyCredentials(ctx context.Context, o Options, a instancectl.Attempt) ([]*corev1.Secret, error) {
	var all []*corev1.Secret
	for _, name := range a.Template.Credentials {
		from := &corev1.Secret{}
		if err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Operator, Name: name}, from); err != nil {
			return nil, fmt.Errorf("credentials: Secret %s of the operator's namespace: %w", name, err)
		}
		if from.Annotations[v1alpha1.AnnotationUse] != useCredentials {
			return nil, fmt.Errorf("credentials: Secret %s does not agree: annotate it %s=%s", name, v1alpha1.AnnotationUse, useCredentials)
		}
		to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: copyOf(name)}}
		if _, err := owned.Write(ctx, o.Client, to, a.UID, func(to *corev1.Secret) error {
			to.Data = from.Data
			return nil
		}); err != nil {
			return nil, err
		}
		all = append(all, to)
	}
	return all, nil
}

// credentials gives the keys of the Secrets that a template names to the run of a module,
// as variables of its environment.
func (x *Terraform) credentials(ctx context.Context, a instancectl.Attempt, s *fluxexec.Spec) error {
	all, err := copyCredentials(ctx, x.o, a)
	if err != nil {
		return err
	}
	for _, to := range all {
		if s.Runner == nil {
			s.Runner = &fluxexec.Runner{}
		}
		for _, key := range slices.Sorted(maps.Keys(to.Data)) {
			s.Runner.Env = append(s.Runner.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: to.Name}, Key: key},
			}})
		}
	}
	return nil
}

func copyOf(name string) string { return "okara-credential-" + name }

// copies are the names of the Secrets that an attempt copies.
func copies(a instancectl.Attempt) []string {
	var names []string
	for _, name := range a.Template.Credentials {
		names = append(names, copyOf(name))
	}
	return names
}
