// SPDX-License-Identifier: Apache-2.0

package instancerun_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
)

// installed is a chart on an API server without controllers.
type installed struct {
	*site
	own      client.WithWatch  // has the chart's rights
	operator string            // namespace
	exec     *instancerun.Flux // hides that of site
}

func newInstalled(t *testing.T) *installed {
	t.Helper()
	s := &installed{site: newSite(t), operator: cluster.Namespace(t, nil).Name}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "web", Annotations: map[string]string{"okara.dev/use": "instances"}},
		Data:       map[string][]byte{"values.yaml": []byte("password: k")},
	}
	must.Succeed(t, s.Create(t.Context(), secret))
	var err error
	if s.own, err = client.NewWithWatch(cluster.Account(t, s.operator), client.Options{Scheme: s.Scheme()}); err != nil {
		t.Fatal(err)
	}
	s.exec = instancerun.New(instancerun.Options{
		Client: s.own, Flux: &fluxexec.Executor{Client: client.WithFieldValidation(s.own, metav1.FieldValidationStrict)},
		Registry: "registry.test", PlainHTTP: true, Operator: s.operator, Instances: s.operator,
	})
	s.a.Credentials, s.a.Outputs, s.a.Limits.Timeout = []string{"web"}, nil, time.Hour
	s.a.Source = template.Source{Chart: "oci://registry.test/charts/web", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("a", 64)}
	s.a.Variables = map[string]json.RawMessage{"replicas": json.RawMessage(`2`)}
	return s
}

// release returns the HelmRelease in the cluster, nil if there is none.
func (s *installed) release() *unstructured.Unstructured {
	s.t.Helper()
	return findObject(s.t, s, s.a, "helm.toolkit.fluxcd.io/v2", "HelmRelease")
}

func findObject(t *testing.T, c client.Reader, a run.Attempt, version, kind string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: a.Namespace, Name: a.ID}, o); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	return o
}

// says writes a status as helm-controller does, with conditions TYPE=STATUS.
func (s *installed) says(more map[string]any, conditions ...string) {
	s.t.Helper()
	o := s.release()
	var list []any
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		list = append(list, map[string]any{"type": kind, "status": status, "reason": "Test", "message": "it says so", "lastTransitionTime": "2026-01-01T00:00:00Z"})
	}
	status := map[string]any{
		"observedGeneration": o.GetGeneration(), "lastHandledReconcileAt": o.GetAnnotations()["reconcile.fluxcd.io/requestedAt"],
		"lastAttemptedRevisionDigest": s.a.Source.Digest, "conditions": list,
	}
	maps.Copy(status, more)
	o.Object["status"] = status
	must.Succeed(s.t, s.Status().Update(s.t.Context(), o))
}

func (s *installed) goesOn(want run.State) run.Status {
	s.t.Helper()
	return s.status(want)(s.exec.Advance(s.t.Context(), s.a))
}

func (s *installed) status(want run.State) func(run.Status, error) run.Status {
	s.t.Helper()
	return func(st run.Status, err error) run.Status {
		s.t.Helper()
		if err != nil || st.State != want {
			s.t.Fatalf("%+v %v, want %s", st, err, want)
		}
		return st
	}
}

// again begins another attempt of a kind.
func (s *installed) again(kind lifecycle.RunKind) {
	s.a.N++
	s.a.Kind = kind
}

// TestHelm follows a chart from its install to its end: by an account that may edit one
// namespace, with a retry, compared and repaired, and not deleted without its account.
//
// Shows: operator 22
func TestHelm(t *testing.T) {
	s := newInstalled(t)
	s.goesOn(run.Running)
	spec := fmt.Sprint(s.release().Object["spec"])
	for _, want := range []string{"serviceAccountName:okara-runner", "replicas:2", "name:okara-credential-web", "mode:enabled", "timeout:15m0s", "targetNamespace:" + s.a.Namespace} {
		if !strings.Contains(spec, want) {
			t.Errorf("the HelmRelease does not say %q: %s", want, spec)
		}
	}
	binding := &rbacv1.RoleBinding{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.a.Namespace, Name: fluxobj.Account}, binding); err != nil || binding.RoleRef.Name != "edit" {
		t.Errorf("%v %+v", err, binding)
	}
	generation := s.release().GetGeneration()
	s.says(map[string]any{"failures": int64(1)}, "Ready=False")
	if st := s.goesOn(run.Running); st.Waiting != lifecycle.WaitRetry || st.Message != "it says so" || s.release().GetGeneration() != generation {
		t.Errorf("%+v", st)
	}
	s.says(nil, "Ready=False", "Stalled=True")
	if st := s.goesOn(run.Ended); st.Result.Outcome != lifecycle.RunFailed || st.Result.Error != "it says so" {
		t.Errorf("%+v", st)
	}
	s.again(lifecycle.RunApply)
	s.goesOn(run.Running)
	if a := s.release().GetAnnotations(); a["reconcile.fluxcd.io/resetAt"] != a["reconcile.fluxcd.io/requestedAt"] {
		t.Errorf("what failed is counted still: %v", a)
	}
	s.says(nil, "Ready=True", "Drifted=True") // from the attempt before: this one repairs it
	if st := s.goesOn(run.Ended); st.Result.Outcome != lifecycle.Done {
		t.Errorf("%+v", st)
	}
	for drifted, changed := range map[string]int{"Drifted=True": 1, "Drifted=False": 0} {
		s.again(lifecycle.RunDrift)
		s.goesOn(run.Running)
		s.says(nil, "Ready=True", drifted)
		st := s.goesOn(run.Ended)
		if c := st.Result.Counts; st.Result.Outcome != lifecycle.Done || changed == 1 && (c == nil || c.Change != 1) || changed == 0 && c != nil {
			t.Errorf("%s: %+v", drifted, st.Result)
		}
	}
	s.ends()
}

// ends destroys the chart, though that fails at first, and the account was deleted.
func (s *installed) ends() {
	s.t.Helper()
	o := s.release()
	o.SetFinalizers([]string{"test.okara.dev/uninstalls"})
	must.Succeed(s.t, s.Update(s.t.Context(), o))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.a.Namespace, Name: fluxobj.Account}}
	must.Succeed(s.t, s.Delete(s.t.Context(), account))
	s.again(lifecycle.RunDestroy)
	s.goesOn(run.Running)
	if s.release().GetDeletionTimestamp() == nil {
		s.t.Error("it is not deleted")
	}
	if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
		s.t.Errorf("it goes without its account: %v", err)
	}
	s.says(map[string]any{"failures": int64(3)}, "Ready=False")
	if st := s.goesOn(run.Ended); st.Result.Outcome != lifecycle.RunFailed || st.Result.Error != "it says so" {
		s.t.Errorf("%+v", st)
	}
	o = s.release()
	o.SetFinalizers(nil)
	must.Succeed(s.t, s.Update(s.t.Context(), o))
	s.goesOn(run.Running)
	if st := s.goesOn(run.Ended); st.Result.Outcome != lifecycle.Done || st.Result.Resources != 0 {
		s.t.Errorf("%+v", st)
	}
	s.gone("OCIRepository")
}

func (s *installed) gone(kind string) {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	o.SetKind(kind)
	if err := s.Get(s.t.Context(), client.ObjectKey{Namespace: s.a.Namespace, Name: s.a.ID}, o); !apierrors.IsNotFound(err) {
		s.t.Errorf("%s is left: %v", kind, err)
	}
}

// TestHelmCancelled cancels an attempt, and orphans what is installed by suspending the
// release before it is deleted.
//
// Shows: operator 22
func TestHelmCancelled(t *testing.T) {
	s := newInstalled(t)
	s.goesOn(run.Running)
	s.a.Cancelled = true
	if st := s.goesOn(run.Ended); st.Result.Outcome != lifecycle.Cancelled {
		t.Errorf("%+v", st)
	}
	s.again(lifecycle.RunApply)
	s.goesOn(run.Running)
	o := s.release()
	o.SetFinalizers([]string{"test.okara.dev/uninstalls"})
	must.Succeed(t, s.Update(t.Context(), o))
	if done, err := s.exec.Release(t.Context(), s.a); err != nil || done {
		t.Fatalf("%t %v", done, err)
	}
	o = s.release()
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); !suspended || o.GetDeletionTimestamp() == nil {
		t.Errorf("it would be uninstalled: %v", o.Object)
	}
	o.SetFinalizers(nil)
	must.Succeed(t, s.Update(t.Context(), o))
	for range 3 {
		if done := must.Get(s.exec.Release(t.Context(), s.a))(t); done {
			s.gone("OCIRepository")
			return
		}
	}
	t.Error("it does not end")
}

// TestCharts pins what source-controller found of each kind of chart, as attempts do.
//
// Shows: operator 22
func TestCharts(t *testing.T) {
	s := newInstalled(t)
	sum := "sha256:" + strings.Repeat("b", 64)
	commit := strings.Repeat("c", 40)
	for name, c := range map[string]struct {
		chart v1alpha1.Chart
		found template.Source
		kind  string
		want  string
	}{
		"oci": {v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://registry.test/web", Version: "1.x"}}, template.Source{Version: "1.2.0", Digest: sum}, "OCIRepository", sum},
		"helm": {
			v1alpha1.Chart{Helm: &v1alpha1.ChartHelm{URL: "https://charts.test", Name: "web", Version: "1.x"}}, template.Source{Version: "1.2.0", Digest: sum}, "HelmRepository", "charts.test",
		},
		"git": {
			v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://git.test/web", Path: "charts/web", Branch: "main"}}, template.Source{Version: "main", Digest: "sha1:" + commit}, "GitRepository", commit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.a.ID, s.a.Credentials = "abcdefgh"+name[:2], nil
			s.a.Source = instancectl.ChartSource(&c.chart)
			s.a.Source.Version, s.a.Source.Digest = c.found.Version, c.found.Digest
			s.goesOn(run.Running)
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("source.toolkit.fluxcd.io/v1")
			o.SetKind(c.kind)
			if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.a.Namespace, Name: s.a.ID}, o); err != nil || !strings.Contains(fmt.Sprint(o.Object["spec"]), c.want) {
				t.Errorf("%v %v", err, o.Object["spec"])
			}
			c.chart.SecretRef = &v1alpha1.SecretRef{Name: "pull"}
			s.a.ID, s.a.Source.Secret = "bcdefghj"+name[:2], instancectl.ChartSource(&c.chart).Secret
			s.goesOn(run.Running)
			beside := client.ObjectKey{Namespace: s.operator, Name: s.a.ID}
			if err := s.Get(t.Context(), beside, o); err != nil || !strings.Contains(fmt.Sprint(o.Object["spec"]), "secretRef:map[name:pull]") || !strings.Contains(fmt.Sprint(s.release().Object["spec"]), "namespace:"+s.operator) {
				t.Errorf("fetched with a credential: %v, %v, %v", err, o.Object["spec"], s.release().Object["spec"])
			}
			if name == "helm" && !strings.Contains(fmt.Sprint(s.release().Object["spec"]), "version:1.2.0") {
				t.Errorf("the release takes another version: %v", s.release().Object["spec"])
			}
		})
	}
}

// TestChartsResolve resolves the chart of a Template with source-controller.
//
// Shows: operator 22
func TestChartsResolve(t *testing.T) {
	s := newInstalled(t)
	c := instancerun.Charts{Flux: &fluxexec.Executor{Client: s.own}, Registry: "registry.test", PlainHTTP: true}
	o := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: s.a.Namespace, Name: "lab.web", UID: "1", Generation: 1}, Spec: v1alpha1.TemplateSpec{
		Chart: &v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://registry.test/charts/web", Version: "1.x"}},
	}}
	if _, err := c.Resolve(t.Context(), o); !errors.Is(err, instancectl.ErrPending) {
		t.Fatal(err)
	}
	lookup := &unstructured.Unstructured{}
	lookup.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	lookup.SetKind("OCIRepository")
	must.Succeed(t, s.Get(t.Context(), client.ObjectKeyFromObject(o), lookup))
	if insecure, _, _ := unstructured.NestedBool(lookup.Object, "spec", "insecure"); !insecure || len(lookup.GetOwnerReferences()) != 1 {
		t.Errorf("%v", lookup.Object)
	}
	sum := "sha256:" + strings.Repeat("b", 64)
	lookup.Object["status"] = map[string]any{
		"observedGeneration": lookup.GetGeneration(),
		"conditions":         []any{map[string]any{"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
		"artifact": map[string]any{
			"revision": "1.2.0@" + sum, "digest": sum, "path": "a", "url": "http://a.example.com/a", "lastUpdateTime": "2026-01-01T00:00:00Z",
		},
	}
	must.Succeed(t, s.Status().Update(t.Context(), lookup))
	want := template.Source{Chart: "oci://registry.test/charts/web", Version: "1.2.0", Digest: sum}
	if got, err := c.Resolve(t.Context(), o); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
}
