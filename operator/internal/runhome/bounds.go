// SPDX-License-Identifier: Apache-2.0

package runhome

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// boundsPolicy is the admission policy that bounds what the operator writes.
const boundsPolicy = "okara-self"

// ErrUnbounded says that no policy bounds what the operator writes.
var ErrUnbounded = errors.New("the admission policies of the chart are not in force for this account")

// Bounded is nil where the API server refuses the operator what it must not do: the rights
// that runs need are those of an administrator of the cluster without that. It asks for a
// namespace that it must not make, and has nothing made.
func Bounded(ctx context.Context, c client.Client) error {
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "okara-bounds-", Labels: map[string]string{v1alpha1.LabelTenant: ""},
	}}, client.DryRunAll)
	switch {
	case err == nil:
		return ErrUnbounded
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "'"+boundsPolicy+"'"):
		return nil
	}
	return err
}
