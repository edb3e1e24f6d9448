// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// TestDepotSyncs has a Depot fill the registry from another one.
func TestDepotSyncs(t *testing.T) {
	admin := cluster.Admin(t)
	rig.Install(t, admin)
	ns := cluster.Namespace(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	origin, fill := ocitest.New(t, ocitest.Quirks{}), ocitest.New(t, ocitest.Quirks{})
	from, _ := depottest.NewDepot(t, origin, oci.Options{})
	to, _ := depottest.NewDepot(t, fill, oci.Options{})
	for _, v := range []string{"1.0.0", "1.1.0"} {
		if _, err := from.PublishModule(t.Context(), depottest.NewModule("# "+v), depottest.MustModule(t, "net/vpc/aws", v), depot.ModuleOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(admin, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns.Name: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	open := func(reference string) (*oci.Repo, error) { return oci.OpenRepo(reference, oci.Options{}) }
	if err := registryctl.Setup(t.Context(), mgr, registryctl.Options{
		Depot: to, Namespace: "elsewhere",
		Origins: func(context.Context, supply.TenantSecret, func(addr.Item) bool) (supply.Origins, error) {
			return supply.Origins{Open: open}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "d"}, Spec: v1alpha1.DepotSpec{
		Modules: []v1alpha1.ModuleEntry{{Address: "net/vpc/aws", Source: "oci://" + origin + "/p/modules/net/vpc/aws"}},
	}}
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			t.Fatal(err)
		}
		if meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) {
			break
		}
		time.Sleep(200 * time.Millisecond)
		if t.Context().Err() != nil {
			t.Fatal("stopped")
		}
		var m v1alpha1.ModuleList
		_ = c.List(t.Context(), &m, client.InNamespace(ns.Name))
		if len(m.Items) > 0 && meta.IsStatusConditionTrue(m.Items[0].Status.Conditions, v1alpha1.ConditionStalled) {
			t.Fatalf("%+v", m.Items[0].Status)
		}
	}
	var versions v1alpha1.VersionList
	if err := c.List(t.Context(), &versions, client.InNamespace(ns.Name)); err != nil {
		t.Fatal(err)
	}
	if len(versions.Items) != 2 || d.Status.Entries[0].Latest != "1.1.0" {
		t.Errorf("%d Versions, %+v", len(versions.Items), d.Status)
	}
	for _, v := range versions.Items {
		t.Logf("%s %+v", v.Name, v.Status)
	}
}
