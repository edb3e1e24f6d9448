// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// released is a release of the chart that the operator's executor carries out.
type released struct {
	flux
	t       *testing.T
	exec    fluxexec.Executor
	spec    fluxexec.Release
	account *corev1.ServiceAccount
	made    *corev1.ConfigMap // by the chart
}

func newReleased(t *testing.T) *released {
	t.Helper()
	r := &released{flux: newFlux(t, Manager, Source, Helm), t: t}
	ns := cluster.Namespace(t, nil).Name
	runner := metav1.ObjectMeta{Namespace: ns, Name: "runner"}
	r.account = &corev1.ServiceAccount{ObjectMeta: runner}
	r.made = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hello"}}
	for _, o := range []client.Object{r.account, &rbacv1.RoleBinding{
		ObjectMeta: runner,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: runner.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}} {
		must.Succeed(t, r.Create(t.Context(), o))
	}
	_, c := depottest.NewDepot(t, serve(t), oci.Options{})
	repo := depottest.MustRepo(t, c, "charts/hello")
	pushed := must.Get(repo.Push(t.Context(), chart(t)))(t)
	r.exec.Client = r.WithWatch
	r.spec = fluxexec.Release{
		Namespace: ns, Name: "hello", UID: "5f0c6d0e-6f1d-4a9d-9b1e-0c1d2e3f4a5b", ServiceAccountName: runner.Name,
		Chart: v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://" + repo.String(), Digest: pushed.Digest.String()}}, PlainHTTP: true,
		Values: []byte(`{"text":"hello"}`),
	}
	return r
}

// reaches applies the release until it has the phase.
func (r *released) reaches(want fluxexec.Phase) {
	r.t.Helper()
	until(r.t, "the release is "+string(want), func() (bool, any) {
		must.Get(r.exec.Apply(r.t.Context(), r.spec))(r.t)
		got := must.Get(r.exec.Observe(r.t.Context(), r.spec))(r.t)
		return got.Phase == want, got
	})
}

func (r *released) ends() {
	r.t.Helper()
	until(r.t, "it is gone", func() (bool, any) { gone, err := r.exec.Destroy(r.t.Context(), r.spec); return gone, err })
	until(r.t, "nothing is left", func() (bool, any) { gone, err := r.exec.Clean(r.t.Context(), r.spec); return gone, err })
}

// TestExecutorInstalls installs, changes and uninstalls a chart, even though the release
// is suspended (H3), and never without its account (H2).
//
// Shows: rig 3 | the operator's executor installs charts from a registry, an index and a Git
// repository whose branch moves; changes them, uninstalls them even if suspended, or keeps them
func TestExecutorInstalls(t *testing.T) {
	r := newReleased(t)
	r.reaches(fluxexec.Applied)
	r.spec.Values = []byte(`{"text":"changed"}`)
	r.reaches(fluxexec.Applied)
	r.read(t, r.made)
	must.Equal(t, "the chart made", r.made.Data["text"], "changed")
	r.delete(t, r.account)
	_, err := r.exec.Destroy(t.Context(), r.spec)
	if _, ok := errors.AsType[*fluxexec.AccountError](err); !ok {
		t.Fatalf("it goes without its account: %v", err)
	}
	r.account.ResourceVersion, r.account.UID = "", ""
	must.Succeed(t, r.Create(t.Context(), r.account))
	must.Succeed(t, r.exec.Cancel(t.Context(), r.spec))
	r.ends()
	r.gone(t, r.made)
}

// TestExecutorKeepsRelease checks that the resources of a chart stay when its release is
// removed.
//
// Shows: rig 3
func TestExecutorKeepsRelease(t *testing.T) {
	r := newReleased(t)
	r.reaches(fluxexec.Applied)
	r.spec.Keep = true
	r.ends()
	r.read(t, r.made)
}

// TestTrapAccount (H2) shows that without its account a release is removed, and its
// resources stay.
//
// Shows: rig 2
func TestTrapAccount(t *testing.T) {
	r := newReleased(t)
	r.reaches(fluxexec.Applied)
	r.delete(t, r.account)
	release := object(t, "{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: hello, namespace: "+r.spec.Namespace+"}}")
	r.delete(t, release)
	r.gone(t, release)
	r.read(t, r.made)
}
