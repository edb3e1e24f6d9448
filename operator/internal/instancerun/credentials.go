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

// credentials copies the Secrets that a template names into the namespace of an instance,
// and gives their keys to the run as variables of its environment.
func (x *Terraform) credentials(ctx context.Context, a instancectl.Attempt, s *fluxexec.Spec) error {
	for _, name := range a.Template.Credentials {
		from := &corev1.Secret{}
		if err := x.o.Client.Get(ctx, client.ObjectKey{Namespace: x.o.Operator, Name: name}, from); err != nil {
			return fmt.Errorf("credentials: Secret %s of the operator's namespace: %w", name, err)
		}
		if from.Annotations[v1alpha1.AnnotationUse] != useCredentials {
			return fmt.Errorf("credentials: Secret %s does not agree: annotate it %s=%s", name, v1alpha1.AnnotationUse, useCredentials)
		}
		to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: copyOf(name)}}
		if _, err := owned.Write(ctx, x.o.Client, to, a.UID, func(to *corev1.Secret) error {
			to.Data = from.Data
			return nil
		}); err != nil {
			return err
		}
		if s.Runner == nil {
			s.Runner = &fluxexec.Runner{}
		}
		for _, key := range slices.Sorted(maps.Keys(from.Data)) {
			s.Runner.Env = append(s.Runner.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: to.Name}, Key: key},
			}})
		}
	}
	return nil
}

func copyOf(name string) string { return "okara-credential-" + name }
