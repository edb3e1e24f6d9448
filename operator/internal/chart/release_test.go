// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// getter is Helm's access to the cluster.
type getter struct {
	config    *rest.Config
	namespace string
	cached    discovery.CachedDiscoveryInterface
}

func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if g.cached == nil {
		c, err := discovery.NewDiscoveryClientForConfig(g.config)
		if err != nil {
			return nil, err
		}
		g.cached = memory.NewMemCacheClient(c)
	}
	return g.cached, nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	c, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(c), nil
}

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}})
}

// TestRelease installs the chart as helm does, upgrades it to other values, and removes
// it: all objects are gone except the CRDs and the namespace of Instances.
//
// Shows: operator 20 | helm installs, upgrades and removes the chart; wrong values change nothing
func TestRelease(t *testing.T) {
	config := cluster.Admin(t)
	set := must.Get(kubernetes.NewForConfig(config))(t)
	ns := cluster.Namespace(t, nil).Name
	helm := new(action.Configuration)
	must.Succeed(t, helm.Init(&getter{config: config, namespace: ns}, ns, "secrets", func(string, ...any) {}))
	helm.Capabilities = chartutil.DefaultCapabilities.Copy()
	helm.Capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"} // the test API server does not report its version
	load := func() (*action.Install, *action.Upgrade) {
		install, upgrade := action.NewInstall(helm), action.NewUpgrade(helm)
		install.ReleaseName, install.Namespace, upgrade.Namespace = "okara", ns, ns
		return install, upgrade
	}
	c := must.Get(loader.LoadDir(chartDir()))(t)
	adopt(t, set, ns)
	install, upgrade := load()
	few := options(t, "few.values.yaml").Values
	if _, err := install.RunWithContext(t.Context(), c, map[string]any{"registry": "https://registry.example.com"}); err == nil || !strings.Contains(err.Error(), "registry") {
		t.Errorf("values that the schema refuses: %v", err)
	}
	deployed := func(r *release.Release, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if r.Info.Status != release.StatusDeployed {
			t.Errorf("the release is %s: %s", r.Info.Status, r.Info.Description)
		}
	}
	deployed(install.RunWithContext(t.Context(), c, few))
	served := func() {
		t.Helper()
		if list, err := set.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String()); err != nil || len(list.APIResources) == 0 {
			t.Errorf("the kinds: %v", err)
		}
	}
	served()
	if _, err := set.AppsV1().Deployments(ns).Get(t.Context(), "okara-portal", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the portal without a value: %v", err)
	}
	more := options(t, "few.values.yaml").Values
	more["runs"], more["portal"] = map[string]any{"enabled": true, "cluster": "prod"}, map[string]any{"enabled": true, "hostname": "portal.example.com"}
	more["frontEnd"].(map[string]any)["replicas"] = 3
	if _, err := upgrade.RunWithContext(t.Context(), "okara", c, map[string]any{"registry": "r", "typo": true}); err == nil || !strings.Contains(err.Error(), "typo") {
		t.Errorf("an upgrade to values that the schema refuses: %v", err)
	}
	deployed(upgrade.RunWithContext(t.Context(), "okara", c, more))
	d, err := set.AppsV1().Deployments(ns).Get(t.Context(), "okara", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 3 {
		t.Errorf("the front-end after the upgrade: %+v, %v", d.Spec.Replicas, err)
	}
	if _, err := set.AppsV1().Deployments(ns).Get(t.Context(), "okara-portal", metav1.GetOptions{}); err != nil {
		t.Errorf("the portal after the upgrade: %v", err)
	}
	_, upgrade = load()
	deployed(upgrade.RunWithContext(t.Context(), "okara", c, few))
	if _, err := set.RbacV1().ClusterRoles().Get(t.Context(), "okara-portal", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the portal's role after it was switched off: %v", err)
	}
	if _, err := set.CoreV1().Namespaces().Get(t.Context(), instances, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace of Instances after it was switched off: %v", err)
	}
	must.Get(action.NewUninstall(helm).Run("okara"))(t)
	left, err := set.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=okara"})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("roles are left: %v, %v", names(left.Items), err)
	}
	served()
}

// TestUpgradeOfKinds as the page says: Helm's fields need --force-conflicts.
func TestUpgradeOfKinds(t *testing.T) {
	c := must.Get(client.New(cluster.Admin(t), client.Options{}))(t)
	text := must.Get(os.ReadFile(filepath.Join(chartDir(), "crds", "okara.dev_accessrules.yaml")))(t)
	var newer unstructured.Unstructured
	must.Succeed(t, yaml.Unmarshal(text, &newer.Object))
	older := newer.DeepCopy()
	must.Succeed(t, unstructured.SetNestedStringSlice(older.Object, []string{"old"}, "spec", "names", "shortNames"))
	apply := func(o *unstructured.Unstructured, by client.FieldOwner, more ...client.ApplyOption) error {
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), append(more, by)...)
	}
	must.Succeed(t, apply(older, "helm", client.ForceOwnership))
	t.Cleanup(func() {
		if err := c.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(newer.DeepCopy()), client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			t.Error(err)
		}
	})
	if err := apply(&newer, "kubectl"); !apierrors.IsConflict(err) {
		t.Errorf("without --force-conflicts: %v", err)
	}
	if err := apply(&newer, "kubectl", client.ForceOwnership); err != nil {
		t.Errorf("with --force-conflicts: %v", err)
	}
	now := newer.DeepCopy()
	must.Succeed(t, c.Get(t.Context(), client.ObjectKeyFromObject(now), now))
	if short, _, err := unstructured.NestedStringSlice(now.Object, "spec", "names", "shortNames"); err != nil || slices.Contains(short, "old") {
		t.Errorf("short names %q, %v", short, err)
	}
}

// adopt lets Helm take over the namespace of Instances.
func adopt(t *testing.T, set *kubernetes.Clientset, namespace string) {
	t.Helper()
	text := `{"metadata":{"annotations":{"meta.helm.sh/release-name":"okara","meta.helm.sh/release-namespace":"` + namespace + `"}}}`
	_, err := set.CoreV1().Namespaces().Patch(t.Context(), instances, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func names(roles []rbacv1.ClusterRole) (all []string) {
	for _, r := range roles {
		all = append(all, r.Name)
	}
	return all
}
