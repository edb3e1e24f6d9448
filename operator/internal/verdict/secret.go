// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// ReadSecret returns a Secret that allows a use ([v1alpha1.AnnotationUse]), or a [*Problem]; where
// follows its name in the message.
func ReadSecret(ctx context.Context, c client.Reader, key client.ObjectKey, where, use string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	const soon = 5 * time.Second // a user may be about to correct it
	switch err := c.Get(ctx, key, s); {
	case apierrors.IsNotFound(err):
		return s, &Problem{Reason: v1alpha1.ReasonSecretMissing, Message: fmt.Sprintf("Secret %s%s does not exist", key.Name, where), After: soon, Retry: true}
	case err != nil:
		return s, err
	}
	if !slices.ContainsFunc(strings.Split(s.Annotations[v1alpha1.AnnotationUse], ","), func(named string) bool { return strings.TrimSpace(named) == use }) {
		return &corev1.Secret{}, &Problem{
			Reason: v1alpha1.ReasonSecretNotAllowed, Message: fmt.Sprintf("Secret %s does not allow this use: annotate it with %s=%s", key.Name, v1alpha1.AnnotationUse, use), After: soon,
		}
	}
	return s, nil
}
