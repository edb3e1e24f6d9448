// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// system is the namespace of the chart.
const system = "okara-system"

func chartDir() string { return filepath.Join(rig.Root(), "charts", "okara") }

// options renders the chart with the values of a file.
func options(t *testing.T, file string) chart.Options {
	t.Helper()
	src := must.Get(os.ReadFile(filepath.Join("testdata", file)))(t)
	o := chart.Options{Dir: chartDir(), Namespace: system}
	must.Succeed(t, yaml.UnmarshalStrict(src, &o.Values))
	return o
}

// TestGolden compares the output of the chart for few and for many values with golden
// files, which OKARA_UPDATE=1 rewrites.
//
// Shows: operator 17
func TestGolden(t *testing.T) {
	for _, name := range []string{"few", "many", "scoped"} {
		o := options(t, name+".values.yaml")
		if name == "many" {
			o.APIs = []string{"monitoring.coreos.com/v1"}
		}
		texts := must.Get(chart.Render(o))(t)
		var all strings.Builder
		for _, file := range slices.Sorted(maps.Keys(texts)) {
			all.WriteString("---\n# " + file + "\n" + strings.TrimPrefix(strings.Trim(texts[file], "\n"), "---\n") + "\n")
		}
		golden := filepath.Join("testdata", name+".yaml")
		if os.Getenv("OKARA_UPDATE") != "" {
			must.Succeed(t, os.WriteFile(golden, []byte(all.String()), 0o600))
		}
		want := must.Get(os.ReadFile(golden))(t)
		if got := all.String(); got != string(want) {
			t.Errorf("the chart makes other objects of %s.values.yaml than %s has: see what changes with OKARA_UPDATE=1", name, golden)
		}
	}
}

// TestValues checks that invalid values are refused with the name of the value.
//
// Shows: operator 17
func TestValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"{}", "registry"},
		{"{registry: 'https://r.example.com', frontEnd: {hostname: o.example.com}}", "registry"},
		{"{registry: r.example.com}", "hostname"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com}, operater: {}}", "operater"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com, memory: 512M}}", "memory"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com}, rbac: {scope: namespaces}}", "watch"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com}, runs: {enabled: true}}", "cluster"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com}, operator: {watch: [a]}, rbac: {scope: namespaces}, runs: {enabled: true, cluster: prod}}", "scope"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com}, runs: {enabled: true, cluster: prod}, admissionPolicies: {enabled: false}}", "admissionPolicies"},
		{"{registry: r.example.com, frontEnd: {enabled: false}, runs: {enabled: true, cluster: prod}}", "serve"},
		{"{registry: r.example.com, frontEnd: {hostname: o.example.com, ui: {session_key_files: []}}}", "session_key_files"},
	} {
		o := chart.Options{Dir: chartDir(), Namespace: system}
		must.Succeed(t, yaml.Unmarshal([]byte(c.values), &o.Values))
		if _, err := chart.Render(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.values, err)
		}
	}
}

// TestCRDFile checks that the single file of CRDs contains those of the chart.
func TestCRDFile(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chartDir(), "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var want strings.Builder
	for _, name := range files {
		src := must.Get(os.ReadFile(name))(t)
		want.Write(src)
	}
	if got, err := os.ReadFile(filepath.Join(chartDir(), "crds.yaml")); err != nil || string(got) != want.String() {
		t.Errorf("charts/okara/crds.yaml is not what is in crds: make generate (%v)", err)
	}
}

// TestApply creates all objects of the chart on a real API server, which refuses unknown
// fields, and pods that a restricted namespace does not allow.
//
// Shows: operator 17
func TestApply(t *testing.T) {
	for _, name := range []string{"few", "many", "scoped"} {
		t.Run(name, func(t *testing.T) {
			config := cluster.Admin(t)
			set, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ns := cluster.Namespace(t, nil)
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			if ns, err = set.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			o := options(t, name+".values.yaml")
			o.Namespace = ns.Name
			if watch, ok := o.Values["operator"].(map[string]any); ok && watch["watch"] != nil {
				watch["watch"] = []any{cluster.Namespace(t, nil).Name}
			}
			objects := must.Get(chart.Objects(o))(t)
			objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "HTTPRoute" }) // the cluster does not have this kind
			install(t, objects)
			pods := 0
			for _, o := range objects {
				if o.GetKind() == "Deployment" {
					pods++
					createPod(t, set, o)
				}
			}
			must.Equal(t, "Deployments", pods, map[string]int{"few": 2, "many": 3, "scoped": 2}[name])
		})
	}
}

// TestRunsStayOn refuses values without runs while a cluster has Instances, unless they consent.
//
// Shows: operator 17
func TestRunsStayOn(t *testing.T) {
	o := options(t, "few.values.yaml")
	o.Cluster, o.APIs = cluster.Admin(t), []string{"okara.dev/v1alpha1"}
	rig.Install(t, o.Cluster)
	kind := must.Get(chart.Parse("{apiVersion: okara.dev/v1alpha1, kind: Instance, metadata: {name: stays, namespace: default}, spec: {template: sandbox/vpc}}"))(t)
	install(t, kind)
	if _, err := chart.Render(o); err == nil || !strings.Contains(err.Error(), "kind Instance, and nothing would run or destroy it") {
		t.Error(err)
	}
	o.Values["runs"] = map[string]any{"stop": true}
	must.Get(chart.Render(o))(t)
}

// createPod creates the pod that the Deployment controller would create.
func createPod(t *testing.T, set *kubernetes.Clientset, deployment *unstructured.Unstructured) {
	t.Helper()
	template, _ := must.GetBoth(unstructured.NestedMap(deployment.Object, "spec", "template"))(t)
	var pod corev1.Pod
	must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &pod, true))
	pod.GenerateName = deployment.GetName() + "-"
	if _, err := set.CoreV1().Pods(deployment.GetNamespace()).Create(t.Context(), &pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Error(err)
	}
}

// install creates objects on the API server until the test ends, since cluster-wide objects have
// the same name in each installation. Namespaces stay, since no controller here empties them.
func install(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	config := cluster.Admin(t)
	objects = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		if o.GetKind() != "Namespace" {
			return false
		}
		if err := chart.Create(t.Context(), config, []*unstructured.Unstructured{o}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		return true
	})
	t.Cleanup(func() {
		if err := deleteObjects(context.WithoutCancel(t.Context()), config, objects); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, chart.Create(t.Context(), config, objects))
}

// deleteObjects deletes objects in reverse order and skips those that no longer exist.
func deleteObjects(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	c, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return err
	}
	for _, o := range slices.Backward(objects) {
		if err := c.Delete(ctx, o.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
