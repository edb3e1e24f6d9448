// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/rig"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

const moduleDigest = "sha256:14f2e7e1314ddc4b1b1e1bcb4b8c9f80ce4b5a3a2b7aa1f3c6a9b1d9f7a55d2b"

type modules struct{}

func (modules) Resolve(context.Context, template.ModuleRef) (template.Source, template.Module, error) {
	source := template.Source{Module: "net/vpc/aws", Version: "1.0.0", Digest: moduleDigest, Archive: moduleDigest, Size: 100}
	return source, template.Module{Inputs: []byte(`{"properties":{}}`), Outputs: map[string]bool{"url": false}}, nil
}

func (m modules) Versions(ctx context.Context, ref template.ModuleRef, _ int) ([]template.Source, error) {
	s, _, err := m.Resolve(ctx, ref)
	return []template.Source{s}, err
}

// runs is an operator of Instances in a cluster with the chart: it has only the rights of the
// chart, under its policies. The test plays the part of Flux and the namespace controller.
type runs struct {
	*site
	ahead atomic.Int64 // of its clock
}

func newRuns(t *testing.T) *runs {
	t.Helper()
	r := &runs{site: newSite(t)}
	rig.InstallFlux(t, cluster.Admin(t))
	r.must(r.admin.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-" + r.system + "-okara-operator"}}))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxobj.AddToScheme, v1alpha1.AddToScheme} {
		r.must(add(scheme))
	}
	account := r.token("okara-operator", r.system)
	only := cache.ByObject{Namespaces: map[string]cache.Config{instances: {}, r.tenants: {}}}
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.Template{}: only, &v1alpha1.Instance{}: only}},
	})
	r.must(err)
	c, err := client.New(account, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	r.must(err)
	if err := fluxobj.Bounded(t.Context(), c); err != nil {
		t.Errorf("with the policies of the chart: %v", err)
	}
	if err := fluxobj.Bounded(t.Context(), r.admin); err == nil {
		t.Error("an administrator counts as bounded")
	}
	issuer, err := runaccess.NewIssuer(runaccess.IssuerOptions{Client: c, Namespace: r.system, Cluster: "prod"})
	r.must(err)
	r.must(issuer.Keep(t.Context()))
	keys := &corev1.ConfigMap{}
	r.must(r.admin.Get(t.Context(), client.ObjectKey{Namespace: r.system, Name: runaccess.IssuerConfigMap}, keys))
	states := rig.NewStates(t, ocitest.New(t, ocitest.Quirks{}), issuer.Name(), []byte(keys.Data[runaccess.IssuerKey]), time.Now)
	access, err := runaccess.New(runaccess.Options{Client: c, Issuer: issuer, Stores: states.Store, FrontEnd: &url.URL{Scheme: states.URL.Scheme, Host: states.URL.Host}})
	r.must(err)
	executor := instancerun.New(instancerun.Options{
		Client: c, Flux: &fluxexec.Executor{Client: c}, Access: access, Registry: "registry.test", Instances: instances, Operator: r.system,
	})
	r.must(instancectl.Setup(mgr, c, instancectl.Options{
		Settings: instancectl.Settings{Namespace: instances}, Operator: r.system, Modules: modules{}, Executor: executor, Observe: 200 * time.Millisecond,
		Clock: &instancectl.Clock{Here: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }},
	}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// play performs the next steps of tofu-controller and the namespace controller.
func (r *runs) play() {
	r.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
	list.SetKind("TerraformList")
	r.must(r.admin.List(r.t.Context(), list, client.HasLabels{v1alpha1.LabelInstance}))
	for i := range list.Items {
		if err := r.carry(&list.Items[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.t.Error(err)
		}
	}
	namespaces, err := r.set.CoreV1().Namespaces().List(r.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelInstance})
	r.must(err)
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if ns.DeletionTimestamp == nil {
			continue
		}
		// The contents of the namespace are deleted, including the operator's binding.
		r.must(client.IgnoreNotFound(r.admin.DeleteAllOf(r.t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(ns.Name))))
		r.must(client.IgnoreNotFound(r.admin.DeleteAllOf(r.t.Context(), &corev1.Secret{}, client.InNamespace(ns.Name))))
		ns.Spec.Finalizers = nil
		if _, err := r.set.CoreV1().Namespaces().Finalize(r.t.Context(), ns, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.t.Error(err)
		}
	}
}

// carry performs the next step of tofu-controller for a Terraform.
func (r *runs) carry(o *unstructured.Unstructured) error {
	const finalizer = "finalizers.tf.contrib.fluxcd.io"
	ctx := r.t.Context()
	suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
	switch {
	case suspended:
		return nil
	case o.GetDeletionTimestamp() != nil:
		o.SetFinalizers(nil)
		return r.admin.Update(ctx, o)
	case len(o.GetFinalizers()) == 0:
		o.SetFinalizers([]string{finalizer})
		if err := r.admin.Update(ctx, o); err != nil {
			return err
		}
	}
	if handled, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt"); handled != "" && handled == o.GetAnnotations()["reconcile.fluxcd.io/requestedAt"] {
		return nil
	}
	o.Object["status"] = map[string]any{
		"observedGeneration": o.GetGeneration(), "lastPlannedRevision": moduleDigest, "lastAppliedRevision": moduleDigest,
		"lastHandledReconcileAt": o.GetAnnotations()["reconcile.fluxcd.io/requestedAt"],
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "TerraformAppliedSucceed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": o.GetGeneration(),
		}},
	}
	return r.admin.Status().Update(ctx, o)
}

// until calls play until the condition is true.
func (r *runs) until(what string, is func() (bool, any)) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		r.play()
		ok, last := is()
		if ok {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("never %s: %+v", what, last)
		}
	}
}

func (r *runs) is(o *v1alpha1.Instance, phase v1alpha1.InstancePhase) {
	r.t.Helper()
	r.until(o.Name+" is "+string(phase), func() (bool, any) {
		err := r.admin.Get(r.t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.Status.Phase == phase, o.Status.Conditions
	})
}

// gone waits until nothing is left of an Instance.
func (r *runs) gone(o *v1alpha1.Instance) {
	r.t.Helper()
	where := "vpc-" + o.Status.ID
	r.until("nothing is left of "+o.Name, func() (bool, any) {
		err := r.admin.Get(r.t.Context(), client.ObjectKeyFromObject(o), o)
		_, inside := r.set.CoreV1().Namespaces().Get(r.t.Context(), where, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(inside), o.Status.Conditions
	})
}

// launched returns a ready Instance of the user anna.
func (r *runs) launched(changes ...func(client.Object)) *v1alpha1.Instance {
	r.t.Helper()
	o := r.instance(r.anna(), changes...)
	r.must(r.tenant.Create(r.t.Context(), o))
	r.is(o, "Ready")
	return o
}

// TestInstancesEnd runs Instances to their end with the rights and under the policies of
// the chart, by deletion and by expiry: their namespaces are deleted, and new Instances
// can be created. An Instance that lost its status, or was restored from a backup without
// it, ends the same way. At the end all is removed as the page about operation says.
//
// Shows: operator 28 | Instances end by deletion and by expiry with the rights and under the
// policies of the chart, their namespaces are deleted, and the next one begins; an error affects
// only its object
func TestInstancesEnd(t *testing.T) {
	r := newRuns(t)
	ctx := t.Context()
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: instances, Name: "sandbox.vpc"}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "net/vpc/aws"}, Outputs: []string{"url"}, TTL: &v1alpha1.TemplateTTL{Default: "8h"},
	}}
	r.must(r.admin.Create(ctx, template))

	first, second := r.launched(), r.launched()
	r.must(r.admin.Delete(ctx, first))
	r.gone(first)
	third := r.launched()

	second.Status = v1alpha1.InstanceStatus{}
	r.must(r.admin.Status().Update(ctx, second))
	r.is(second, "Ready")

	uid := third.UID
	r.lose(third)
	third = r.again(third)
	r.is(third, "Ready")
	if third.Status.UID != uid || third.UID == uid {
		t.Errorf("it is known as %s, was %s", third.Status.UID, uid)
	}

	r.ahead.Store(int64(9 * time.Hour))
	r.must(patch(ctx, r.admin, template, `{"metadata":{"annotations":{"test":"it is later"}}}`)) // makes the operator reconcile again
	r.gone(second)
	r.gone(third)
	r.ahead.Store(0)
	r.until("what the wait for the policies made is gone", func() (bool, any) { err := r.endInstances(ctx); return err == nil, err })
	var probes v1alpha1.ModuleList
	r.must(r.admin.List(ctx, &probes))
	for i := range probes.Items {
		r.must(patch(ctx, r.admin, &probes.Items[i], `{"metadata":{"annotations":null,"finalizers":null}}`))
	}
	web := r.launched(func(o client.Object) { o.SetNamespace(r.tenants); o.SetName("web") })
	kind := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "instances.okara.dev"}}
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.tenants}}
	for policy, o := range map[string]client.Object{"okara-data-runs": kind, "okara-data-namespaces": team} {
		r.until(policy+" refuses", func() (bool, any) {
			err := r.admin.Delete(ctx, o, client.DryRunAll)
			return refusedBy(err, policy) && strings.Contains(err.Error(), "delete Templates and Instances first"), err
		})
	}
	r.must(r.tenant.Delete(ctx, web))
	r.gone(web)
	r.launched(func(o client.Object) { o.SetNamespace(r.tenants) })
	r.launched()
	r.uninstall()
	rig.Install(t, cluster.Admin(t)) // for other tests
}

// uninstall runs the page's commands; where no controller empties namespaces, these are not deleted.
func (r *runs) uninstall() {
	r.t.Helper()
	ctx, home := r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: instances}}
	if err := r.admin.Delete(ctx, home, client.DryRunAll); !refusedBy(err, "okara-data-instances") {
		r.t.Errorf("the namespace of Instances under one: %v", err)
	}
	src, err := os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", "kubernetes-operate.md"))
	r.must(err)
	crds, err := os.ReadFile(filepath.Join(chartDir(), "crds.yaml"))
	r.must(err)
	kinds := must.Get(chart.Parse(string(crds)))(r.t)
	_, page, _ := strings.Cut(string(src), "## Uninstall")
	before, _, _ := strings.Cut(page, "helm uninstall okara")
	for _, k := range kinds {
		version := must.Get(json.Marshal(k.Object["spec"]))(r.t)
		if name := k.GetName(); strings.Contains(string(version), `"deletionPolicy":`) && !slices.Contains(strings.FieldsFunc(before, isSeparator), name) {
			r.t.Errorf("the operator holds %s: the page deletes none before the operator", name)
		}
	}
	did := 0
	for line := range strings.Lines(page) {
		line = strings.TrimPrefix(line, "until ")
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "helm uninstall okara"):
			made := slices.DeleteFunc(slices.Clone(r.objects), func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
			r.must(deleteObjects(ctx, cluster.Admin(r.t), made))
		case strings.HasPrefix(line, "kubectl delete -f charts/okara/crds.yaml"):
			r.must(deleteObjects(ctx, cluster.Admin(r.t), kinds))
			r.until("the kinds are gone", func() (bool, any) {
				left := &apiextensions.CustomResourceDefinitionList{}
				r.must(r.admin.List(ctx, left))
				return !slices.ContainsFunc(left.Items, func(k apiextensions.CustomResourceDefinition) bool { return k.Spec.Group == v1alpha1.Group }), nil
			})
		case strings.HasPrefix(line, "kubectl delete namespace "):
			r.must(r.admin.Delete(ctx, home, client.DryRunAll))
			r.t.Run("namespaces", func(t *testing.T) { r.endNamespaces(t, home) })
		case strings.HasPrefix(line, "kubectl delete "):
			for resource := range strings.SplitSeq(words[2], ",") {
				r.deleteAll(resource)
			}
		default:
			continue
		}
		did++
	}
	must.Equal(r.t, "commands of the page were run", did, 9)
}

// endNamespaces deletes the namespaces of okara, which a controller empties: make interop-kube has it.
func (r *runs) endNamespaces(t *testing.T, home *corev1.Namespace) {
	cluster.With(t, rig.Manager)
	for _, o := range []client.Object{home, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.system}}} {
		r.must(r.admin.Delete(t.Context(), o))
		r.until(o.GetName()+" is gone", func() (bool, any) {
			err := r.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), []any{err, o}
		})
	}
}

func isSeparator(c rune) bool { return unicode.IsSpace(c) || c == ',' }

// deleteAll deletes all objects of a kind, and waits until they are gone.
func (r *runs) deleteAll(resource string) {
	r.t.Helper()
	plural, group, _ := strings.Cut(resource, ".")
	kind, err := r.admin.RESTMapper().KindFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if meta.IsNoMatchError(err) {
		return // a kind of the example
	}
	r.must(err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	r.until("no "+resource+" is left", func() (bool, any) {
		r.must(r.admin.List(r.t.Context(), list))
		for i := range list.Items {
			r.must(client.IgnoreNotFound(r.admin.Delete(r.t.Context(), &list.Items[i])))
		}
		return len(list.Items) == 0, len(list.Items)
	})
}

// lose deletes an Instance without ending its run, in the version without the operator's finalizer.
func (r *runs) lose(o *v1alpha1.Instance) {
	r.t.Helper()
	r.until(o.Name+" is lost", func() (bool, any) {
		if err := r.admin.Get(r.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		o.Finalizers = nil
		if err := r.admin.Update(r.t.Context(), o); err != nil {
			return false, err
		}
		err := r.admin.Delete(r.t.Context(), o, client.Preconditions{ResourceVersion: &o.ResourceVersion})
		return err == nil, err
	})
}

// again recreates an Instance, as a backup tool does.
func (r *runs) again(o *v1alpha1.Instance) *v1alpha1.Instance {
	r.t.Helper()
	next := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, Labels: o.Labels, Annotations: o.Annotations, Finalizers: []string{v1alpha1.FinalizerRun},
	}, Spec: o.Spec}
	r.must(r.admin.Create(r.t.Context(), next))
	return next
}
