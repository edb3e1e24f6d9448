// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// InstallFlux creates the CRDs of Flux, without the controllers, and waits until they
// are served. A test is skipped where one of the controllers has not been built.
func InstallFlux(t testing.TB, config *rest.Config) {
	t.Helper()
	for _, name := range []string{Source, Helm, Tofu} {
		path, err := program(name)
		if missing, ok := err.(*missingError); ok {
			t.Skip(missing)
		}
		if err == nil {
			err = install(t.Context(), config, filepath.Join(filepath.Dir(path), "crds"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
