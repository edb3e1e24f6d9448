// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Install creates the CRDs of the chart and waits until they are served. CRDs that
// are there stay as they are.
func Install(t testing.TB, config *rest.Config) {
	t.Helper()
	set, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds := set.ApiextensionsV1().CustomResourceDefinitions()
	names, err := filepath.Glob(filepath.Join(Root(), "charts", "okara", "crds", "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatal("the chart has no CRD", err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(src, &crd); err != nil {
			t.Fatal(err)
		}
		_, err = crds.Create(t.Context(), &crd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
			got, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
			return err == nil && established(got), err
		}); err != nil {
			t.Fatalf("%s is not served: %v", crd.Name, err)
		}
	}
}

func established(crd *apiextensions.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue {
			return true
		}
	}
	return false
}
