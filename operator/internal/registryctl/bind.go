// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// AddToScheme tells a scheme all kinds that the controllers read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(v1alpha1.AddToScheme(s), runhome.AddToScheme(s))
}

// bind gives the operator the Secrets of a namespace that an administrator marked as one
// of a tenant.
func (r *entries) bind(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	if _, marked := ns.Labels[v1alpha1.LabelTenant]; !marked {
		return &problem{v1alpha1.ReasonNamespaceNotAllowed, (&runhome.NotAllowedError{Namespace: ns.Name}).Error()}
	}
	return runhome.Bind(ctx, r.Client, ns.Name)
}
