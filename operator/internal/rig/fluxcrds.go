// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
)

// InstallFlux creates the CRDs of Flux, without the controllers, and waits until they
// are served. A test is skipped where they have not been copied.
func InstallFlux(t testing.TB, config *rest.Config) {
	t.Helper()
	has(t, FluxKinds(t.Context(), config))
}

// FluxKinds is [InstallFlux] for a program that is no test.
func FluxKinds(ctx context.Context, config *rest.Config) error {
	for _, name := range []string{Source, Helm, Tofu} {
		if err := installOf(ctx, config, name); err != nil {
			return err
		}
	}
	return nil
}
