// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestReleaseKilled kills the operator at each write during a release's life, before
// it and after it. Its successor takes the release through the same stages, and leaves
// nothing.
//
// Shows: operator 34
func TestReleaseKilled(t *testing.T) {
	rig.InstallFlux(t, cluster.Admin(t))
	for _, name := range sources {
		want, _ := releaseLife(t, name, 0, false)
		deaths := 0
		for _, after := range []bool{false, true} {
			for nth := 1; ; nth++ {
				got, died := releaseLife(t, name, nth, after)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, killed at write %d, after it %t:\n%s", name, nth, after, diff)
				}
				if deaths += died; died == 0 {
					break
				}
			}
		}
		if deaths < 10 {
			t.Errorf("%s: it was killed %d times only", name, deaths)
		}
	}
}

// releaseLife takes a release from its beginning to its end, and returns the stages of its
// HelmRelease. The operator is killed at the nth write of each step, or never if nth is 0.
func releaseLife(t *testing.T, name string, nth int, after bool) (stages []any, deaths int) {
	t.Helper()
	s := release(t, name)
	s.Namespace = cluster.Namespace(t, nil).Name
	c := must.Get(client.NewWithWatch(cluster.Account(t, s.Namespace), client.Options{}))(t)
	step := func(what string, do func(context.Context, fluxexec.Executor) error) {
		t.Helper()
		if nth > 0 {
			dying, tried := rig.Dying(c, nth, after)
			err := do(t.Context(), executor(dying))
			killed := tried() >= nth
			if killed != errors.Is(err, rig.ErrKilled) {
				t.Fatalf("%s, killed at write %d, after it %t: %v", what, nth, after, err)
			}
			if killed {
				deaths++
			}
		}
		if err := do(t.Context(), executor(c)); err != nil {
			t.Fatalf("%s, after a death at write %d, after it %t: %v", what, nth, after, err)
		}
		spec := liveRelease(t, s).Object["spec"]
		if in, is := spec.(map[string]any); is {
			delete(in, "targetNamespace") // different in each run
			delete(in, "storageNamespace")
		}
		stages = append(stages, spec)
	}
	apply := func(ctx context.Context, x fluxexec.Executor) error { _, err := x.Apply(ctx, s); return err }
	step("begin", apply)
	s.Values = []byte(`{"text": "changed"}`)
	step("change", apply)
	step("cancel", func(ctx context.Context, x fluxexec.Executor) error { return x.Cancel(ctx, s) })
	must.Succeed(t, c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.ServiceAccountName}}))
	for range 2 {
		step("destroy", func(ctx context.Context, x fluxexec.Executor) error { _, err := x.Destroy(ctx, s); return err })
	}
	for range 2 {
		step("clean", func(ctx context.Context, x fluxexec.Executor) error { _, err := x.Clean(ctx, s); return err })
	}
	x := executor(c)
	if gone, err := x.Clean(t.Context(), s); err != nil || !gone || stages[len(stages)-1] != nil {
		t.Errorf("%s: something is left: %v", name, err)
	}
	return stages, deaths
}

func executor(c client.Client) fluxexec.Executor {
	return fluxexec.Executor{Client: client.WithFieldValidation(c, metav1.FieldValidationStrict)}
}

// liveRelease returns the HelmRelease, or an object without a spec if it does not exist.
func liveRelease(t *testing.T, s fluxexec.Release) *unstructured.Unstructured {
	t.Helper()
	c, err := client.New(cluster.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("helm.toolkit.fluxcd.io/v2")
	o.SetKind("HelmRelease")
	err = c.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return o
}
