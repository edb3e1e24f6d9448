// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// InstallFlux creates the CRDs of Flux, without the controllers, and waits until they
// are served. A test is skipped where one of the controllers has not been built.
func InstallFlux(t testing.TB, config *rest.Config) {
	t.Helper()
	err := FluxKinds(t.Context(), config)
	if missing, ok := errors.AsType[*missingError](err); ok {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FluxKinds is [InstallFlux] for a program that is no test.
func FluxKinds(ctx context.Context, config *rest.Config) error {
	for _, name := range []string{Source, Helm, Tofu} {
		path, err := program(name)
		if err != nil {
			return err
		}
		if err := install(ctx, config, filepath.Join(filepath.Dir(path), "crds")); err != nil {
			return err
		}
	}
	return nil
}
