// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestRelease checks for each kind of source that the objects pass the validation of
// Flux's kinds, that nothing is written without a change, that no release is deleted
// without its account, and that nothing is left.
func TestRelease(t *testing.T) {
	for _, name := range sources {
		t.Run(name, func(t *testing.T) {
			config := cluster.Admin(t)
			rig.InstallFlux(t, config)
			c := must.Get(client.New(config, client.Options{}))(t)
			s := release(t, name)
			s.Namespace = cluster.Namespace(t, nil).Name
			operator := must.Get(client.New(cluster.Account(t, s.Namespace), client.Options{}))(t)
			exec := fluxexec.Executor{Client: client.WithFieldValidation(operator, metav1.FieldValidationStrict)}
			for _, changes := range []bool{true, false} {
				if changed, err := exec.Apply(t.Context(), s); err != nil || changed != changes {
					t.Fatalf("changed %t, want %t: %v", changed, changes, err)
				}
			}
			if _, err := exec.Destroy(t.Context(), s); !isAccount(err) {
				t.Errorf("it was deleted without an account: %v", err)
			}
			if got, err := exec.Observe(t.Context(), s); err != nil || got.Phase == fluxexec.Destroying {
				t.Errorf("%+v: %v", got, err)
			}
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.ServiceAccountName}}
			must.Succeed(t, c.Create(t.Context(), account))
			must.Succeed(t, exec.Cancel(t.Context(), s))
			if got, err := exec.Observe(t.Context(), s); err != nil || got.Phase != fluxexec.Suspended {
				t.Errorf("%+v: %v", got, err)
			}
			ended(t, func() (bool, error) { return exec.Destroy(t.Context(), s) })
			ended(t, func() (bool, error) { return exec.Clean(t.Context(), s) })
			if got, err := exec.Observe(t.Context(), s); err != nil || got.Phase != fluxexec.Absent {
				t.Errorf("%+v: %v", got, err)
			}
		})
	}
}

func isAccount(err error) bool {
	_, is := errors.AsType[*fluxexec.AccountError](err)
	return is
}

// ended repeats a step until it reports that everything is gone.
func ended(t *testing.T, step func() (bool, error)) {
	t.Helper()
	for range 5 {
		if gone := must.Get(step())(t); gone {
			return
		}
	}
	t.Error("it does not end")
}

// TestReleaseObserve reads statuses in the form of helm-controller.
func TestReleaseObserve(t *testing.T) {
	const sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	condition := func(kind, status string) any { return map[string]any{"type": kind, "status": status} }
	for _, c := range []struct {
		phase      fluxexec.Phase
		digest     string
		observed   int64
		conditions []any
	}{
		{fluxexec.Applied, sum, 2, []any{condition("Ready", "True")}},
		{fluxexec.Running, sum, 1, []any{condition("Ready", "True")}},
		{fluxexec.Applied, sum, 2, []any{condition("Ready", "True"), condition("Drifted", "False")}},
		{fluxexec.Drifted, sum, 2, []any{condition("Ready", "True"), condition("Drifted", "True")}},
		{fluxexec.Running, "sha256:00", 2, []any{condition("Ready", "True")}},
		{fluxexec.Running, sum, 2, []any{condition("Ready", "False")}},
		{fluxexec.Failed, sum, 2, []any{condition("Ready", "False"), condition("Stalled", "True")}},
	} {
		live := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2), "annotations": map[string]any{fluxexec.AnnotationAttempt: "1.1.x"}},
			"status": map[string]any{
				"observedGeneration": c.observed, "conditions": c.conditions, "lastAttemptedRevisionDigest": c.digest,
				"history": []any{map[string]any{"chartVersion": "1.0.0"}},
			},
		}}
		s := release(t, "oci")
		if got := fluxexec.Observe(s, live); got.Phase != c.phase || got.AppliedRevision != "1.0.0" {
			t.Errorf("%v is %+v", live.Object, got)
		}
	}
}

// TestReleaseCommit: applied only with this commit.
func TestReleaseCommit(t *testing.T) {
	s := release(t, "git")
	for revision, want := range map[string]fluxexec.Phase{"1.0.0+0123456789ab": fluxexec.Applied, "1.0.0+ba9876543210": fluxexec.Running} {
		live := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(1)},
			"status":   map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "lastAttemptedRevision": revision},
		}}
		if got := fluxexec.Observe(s, live); got.Phase != want {
			t.Errorf("%s is %+v", revision, got)
		}
	}
}
