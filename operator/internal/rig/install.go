// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
)

// Install makes the chart's CRDs, and waits until they are served. Existing ones are not changed.
func Install(t testing.TB, config *rest.Config) {
	t.Helper()
	must.Succeed(t, installCRDs(t.Context(), config, filepath.Join(Root(), "charts", "okara", "crds")))
}

// installCRDs is [Install] for the CRDs in a folder.
func installCRDs(ctx context.Context, config *rest.Config, dir string) error {
	set, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no CRD is in %s", dir)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := installFile(ctx, set, name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

func installFile(ctx context.Context, set clientset.Interface, name string) error {
	crds := set.ApiextensionsV1().CustomResourceDefinitions()
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var crd apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(src, &crd); err != nil {
		return err
	}
	_, err = crds.Create(ctx, &crd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		got, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
		return err == nil && apihelpers.IsCRDConditionTrue(got, apiextensions.Established) && isServed(set, got), err
	})
}

// isServed reports whether discovery lists each version, some time after it is established.
func isServed(set clientset.Interface, crd *apiextensions.CustomResourceDefinition) bool {
	isUnknown := func(v apiextensions.CustomResourceDefinitionVersion) bool {
		_, err := set.Discovery().ServerResourcesForGroupVersion(crd.Spec.Group + "/" + v.Name)
		return v.Served && err != nil
	}
	return !slices.ContainsFunc(crd.Spec.Versions, isUnknown)
}

// InstallOthers makes the CRDs of other projects in the chart, or skips the test without copies.
func InstallOthers(t testing.TB, config *rest.Config) {
	t.Helper()
	checkErr(t, installOf(t.Context(), config, "chart"))
}

// installOf is [installCRDs] for the copied CRDs of another project; whose names their folder.
func installOf(ctx context.Context, config *rest.Config, whose string) error {
	dir := filepath.Join(Root(), ".cache", "kube", "crds", whose)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &missingError{"crds"}
	}
	return installCRDs(ctx, config, dir)
}

// InstallFlux makes the CRDs of Flux, or skips the test without copies.
func InstallFlux(t testing.TB, config *rest.Config) {
	t.Helper()
	checkErr(t, FluxKinds(t.Context(), config))
}

// FluxKinds is [InstallFlux] for a program that is not a test.
func FluxKinds(ctx context.Context, config *rest.Config) error {
	for _, name := range []string{Source, Helm, Tofu} {
		if err := installOf(ctx, config, name); err != nil {
			return err
		}
	}
	return nil
}
