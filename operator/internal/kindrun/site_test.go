// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/fluxrun"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/rig"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/statebackend"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

const digest = "sha256:14f2e7e1314ddc4b1b1e1bcb4b8c9f80ce4b5a3a2b7aa1f3c6a9b1d9f7a55d2b"

// site is an operator of the objects of one kind. The test plays Flux.
type site struct {
	client.Client     // of an administrator
	t                 *testing.T
	operator          client.WithWatch // has the chart's rights
	states            *rig.States
	issuer            *runaccess.Issuer
	operatorNamespace string // of the operator
	tenant            string
	def               *v1alpha1.ModuleKind
	objects           *kindrun.Objects
	copies            []fluxrun.Copy
	events            *events.FakeRecorder
	later             time.Duration // how far the clock is ahead
	pull              string        // name of the pull Secret; "": there is none
}

func newSite(t *testing.T, change func(*v1alpha1.ModuleKindSpec)) *site {
	t.Helper()
	config := cluster.Admin(t)
	rig.Install(t, config)
	rig.InstallFlux(t, config)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxobj.AddToScheme, v1alpha1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Client: c, t: t, operatorNamespace: cluster.Namespace(t, nil).Name, events: events.NewFakeRecorder(100)}
	if s.operator, err = client.NewWithWatch(cluster.Account(t, s.operatorNamespace), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	ns := cluster.Namespace(t, nil)
	ns.Labels = map[string]string{v1alpha1.LabelTenant: ""}
	must.Succeed(t, c.Update(t.Context(), ns))
	s.tenant = ns.Name
	if s.issuer, err = runaccess.NewIssuer(runaccess.IssuerOptions{Client: s.operator, Namespace: s.operatorNamespace, Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.issuer.Keep(t.Context()))
	m := &corev1.ConfigMap{}
	s.read(m, s.operatorNamespace, runaccess.IssuerConfigMap)
	s.states = rig.NewStates(t, ocitest.New(t, ocitest.Quirks{}), s.issuer.Name(), []byte(m.Data[runaccess.IssuerKey]), time.Now)
	s.def = &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "vpcs"}}
	s.def.Spec.Names = v1alpha1.KindNames{Kind: "VPC", Plural: "vpcs", Singular: "vpc"}
	s.def.Spec.Run = v1alpha1.KindRun{Prefix: "vpc-", AccountAnnotations: map[string]string{"cloud.example.com/role": "vpc"}}
	s.def.Spec.Outputs = v1alpha1.KindOutputs{
		SecretName: "{name}-outputs", Include: []v1alpha1.InputName{"vpc_id", "subnet_ids"}, Status: []v1alpha1.InputName{"vpc_id"},
		Readers: []v1alpha1.KindReader{{Kind: "Group", Name: "tenant-acme"}},
	}
	if change != nil {
		change(&s.def.Spec)
	}
	s.install()
	s.restart(s.operator)
	return s
}

// newApplied returns a site with an object that has been applied.
func newApplied(t *testing.T) (*site, *unstructured.Unstructured) {
	t.Helper()
	s := newSite(t, nil)
	o := s.vpc(nil)
	s.step(o)
	s.applied(o)
	s.step(o)
	return s, o
}

// install creates the CRD of the kind, once for all tests.
func (s *site) install() {
	s.t.Helper()
	open := apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vpcs.apps.okara.dev"}, Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "apps.okara.dev", Scope: apiextensions.NamespaceScoped, Names: apiextensions.CustomResourceDefinitionNames{Kind: "VPC", Plural: "vpcs", Singular: "vpc", ListKind: "VPCList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1alpha1", Served: true, Storage: true, Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": open, "status": open}}},
		}},
	}}
	if err := s.Create(s.t.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("apps.okara.dev/v1alpha1")
		list.SetKind("VPCList")
		if err := s.List(s.t.Context(), list); err == nil {
			return
		} else if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

// restart creates a new reconciler of objects, with a client that may fail.
func (s *site) restart(c client.Client) {
	s.t.Helper()
	a := must.Get(runaccess.New(runaccess.Options{
		Client: c, Issuer: s.issuer, Stores: s.states.Store, States: s.states.Names, FrontEnd: s.states.URL, PullSecret: client.ObjectKey{Namespace: s.operatorNamespace, Name: s.pull},
	}))(s.t)
	s.objects = kindrun.New(kindrun.Options{Client: c, Access: a, Records: records.Store{Client: c, Namespace: s.operatorNamespace}, Executor: &fluxexec.Executor{Client: c}, Want: s.want, Readers: kindspec.OutputsRole, Gate: "https://gate.example.com/plan", Events: s.events, Now: func() time.Time { return time.Now().Add(s.later) }})
}

// want returns what a definition and an object ask for.
func (s *site) want(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (kindrun.Wanted, error) {
	w := kindrun.Wanted{Address: "net/vpc/aws", Copies: s.copies}
	w.Run.Module = fluxexec.Module{Repository: "registry.example.com/modules/net/vpc/aws", Digest: digest, Version: "1.4.0"}
	w.Run.Variables = map[string]json.RawMessage{}
	w.Run.Labels = map[string]string{v1alpha1.LabelKind: o.GetKind(), v1alpha1.LabelObject: o.GetName()}
	if def.Spec.Run.Approval.Mode == v1alpha1.ApprovalPlan {
		w.Run.Approval = fluxexec.ApprovalManual
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	run, _, _ := unstructured.NestedMap(spec, "runOptions")
	w.Run.Suspend = run["suspend"] == true
	delete(spec, "runOptions")
	for name, value := range spec {
		b, err := json.Marshal(value)
		if err != nil {
			return w, err
		}
		w.Run.Variables[name] = b
	}
	return w, nil
}

func (s *site) vpc(annotations map[string]string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cidr": "10.10.0.0/16"}}}
	o.SetAPIVersion("apps.okara.dev/v1alpha1")
	o.SetKind("VPC")
	o.SetNamespace(s.tenant)
	o.SetName("prod")
	o.SetAnnotations(annotations)
	must.Succeed(s.t, s.Create(s.t.Context(), o))
	return o
}

func (s *site) read(o client.Object, namespace, name string) {
	s.t.Helper()
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o))
}

func (s *site) there(o client.Object, namespace, name string) bool {
	s.t.Helper()
	err := s.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}

// step reconciles an object once, in its current version.
func (s *site) step(o *unstructured.Unstructured) {
	s.t.Helper()
	must.Succeed(s.t, s.try(o))
}

func (s *site) try(o *unstructured.Unstructured) error {
	s.t.Helper()
	if !s.there(o, o.GetNamespace(), o.GetName()) {
		return nil
	}
	if _, err := s.objects.Reconcile(s.t.Context(), s.def, o); err != nil {
		return err
	}
	s.there(o, o.GetNamespace(), o.GetName())
	return nil
}

func (s *site) ready(o *unstructured.Unstructured) metav1.Condition {
	s.t.Helper()
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	is, _, _ := unstructured.NestedMap(o.Object, "status")
	must.Succeed(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(is, &status))
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

// says checks that an object is Ready, or not, for a reason.
func (s *site) says(o *unstructured.Unstructured, ready bool, reason string) {
	s.t.Helper()
	if c := s.ready(o); (c.Status == metav1.ConditionTrue) != ready || c.Reason != reason {
		s.t.Fatalf("the object says %+v, want Ready=%v for %s", o.Object["status"], ready, reason)
	}
}

func runs(o *unstructured.Unstructured) string { return "okara-run-" + string(o.GetUID()) }

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func (s *site) terraform(o *unstructured.Unstructured) *unstructured.Unstructured {
	s.t.Helper()
	t := &unstructured.Unstructured{}
	t.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
	t.SetKind("Terraform")
	s.read(t, runs(o), "vpc-prod")
	return t
}

// controller writes a Terraform's status as tofu-controller.
func (s *site) controller(o *unstructured.Unstructured, ready, reason, message string, more map[string]any) {
	s.t.Helper()
	t := s.terraform(o)
	if len(t.GetFinalizers()) == 0 && t.GetDeletionTimestamp() == nil {
		t.SetFinalizers([]string{"finalizers.tf.contrib.fluxcd.io"})
		must.Succeed(s.t, s.Update(s.t.Context(), t))
	}
	status := map[string]any{
		"observedGeneration": t.GetGeneration(), "lastHandledReconcileAt": t.GetAnnotations()["reconcile.fluxcd.io/requestedAt"],
		"conditions": []any{map[string]any{
			"type": "Ready", "status": ready, "reason": reason, "message": message, "observedGeneration": t.GetGeneration(), "lastTransitionTime": "2026-01-02T03:04:05Z",
		}},
	}
	maps.Copy(status, more)
	t.Object["status"] = status
	must.Succeed(s.t, s.Status().Update(s.t.Context(), t))
}

// fails plays tofu-controller when it cannot destroy.
func (s *site) fails(o *unstructured.Unstructured, n int) {
	s.t.Helper()
	s.controller(o, "False", "ApplyFailed", "no credentials\nmore", nil)
	t := s.terraform(o)
	conditions := t.Object["status"].(map[string]any)["conditions"].([]any)
	conditions[0].(map[string]any)["lastTransitionTime"] = time.Now().Add(time.Duration(n) * time.Second).UTC().Format(time.RFC3339)
	must.Succeed(s.t, s.Status().Update(s.t.Context(), t))
}

func (s *site) suspended(o *unstructured.Unstructured) bool {
	s.t.Helper()
	is, _, _ := unstructured.NestedBool(s.terraform(o).Object, "spec", "suspend")
	return is
}

// applied plays tofu-controller after a successful run.
func (s *site) applied(o *unstructured.Unstructured) {
	s.t.Helper()
	s.write(o, 1, resource)
	s.controller(o, "True", "TerraformAppliedSucceed", "", map[string]any{"lastAppliedRevision": "1.4.0@" + digest, "lastPlannedRevision": "1.4.0@" + digest})
	s.raw(o)
}

// raw creates the Secret of outputs that tofu-controller writes.
func (s *site) raw(o *unstructured.Unstructured) {
	s.t.Helper()
	raw := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: runs(o), Name: "vpc-prod-okara-raw", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "infra.contrib.fluxcd.io/v1alpha2", Kind: "Terraform", Name: "vpc-prod", UID: s.terraform(o).GetUID()},
	}}, StringData: map[string]string{
		"vpc_id": "vpc-0a1b", "subnet_ids": `["a","b"]`, "subnet_ids__type": `["list","string"]`, "secret": "hush",
	}}
	if err := s.Create(s.t.Context(), raw); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

// finish plays tofu-controller after a destroy.
func (s *site) finish(o *unstructured.Unstructured, serial int) {
	s.t.Helper()
	t := s.terraform(o)
	if t.GetDeletionTimestamp() == nil {
		s.t.Fatal("the Terraform is not deleted")
	}
	source := &unstructured.Unstructured{}
	source.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	source.SetKind("OCIRepository")
	s.read(source, runs(o), "vpc-prod")
	s.write(o, serial, "")
	t.SetFinalizers(nil)
	must.Succeed(s.t, s.Update(s.t.Context(), t))
}

const resource = `{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{}}]}`

// write writes the state with the token of the run.
func (s *site) write(o *unstructured.Unstructured, serial int, resources string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"a","outputs":{},"resources":[%s]}`, serial, resources)
	if status, answer := s.ask(o, http.MethodPost, body); status != http.StatusOK {
		s.t.Fatalf("a write of the run is %d: %s", status, answer)
	}
}

func (s *site) ask(o *unstructured.Unstructured, method, body string) (int, string) {
	s.t.Helper()
	token := &corev1.Secret{}
	s.read(token, runs(o), "vpc-prod-okara-run")
	r := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.states.URL.String()+"/state/prod."+s.tenant+"/vpcs.prod", strings.NewReader(body)))(s.t)
	r.SetBasicAuth("run", string(token.Data["token"]))
	resp := must.Get(http.DefaultClient.Do(r))(s.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, string(b)
}

// emptied plays the namespace controller for a deleted run namespace.
func (s *site) emptied(o *unstructured.Unstructured) {
	s.t.Helper()
	s.endNamespace(runs(o))
}

// endNamespace ends a namespace that is being deleted, as the namespace controller does.
func (s *site) endNamespace(namespace string) {
	s.t.Helper()
	ns := &corev1.Namespace{}
	if !s.there(ns, "", namespace) || ns.DeletionTimestamp == nil {
		return
	}
	ns.Spec.Finalizers = nil
	set := must.Get(kubernetes.NewForConfig(cluster.Admin(s.t)))(s.t)
	must.Get(set.CoreV1().Namespaces().Finalize(s.t.Context(), ns, metav1.UpdateOptions{}))(s.t)
}

// gone reconciles an object until it no longer exists.
func (s *site) gone(o *unstructured.Unstructured) {
	s.t.Helper()
	for range 20 {
		s.step(o)
		s.emptied(o)
		if !s.there(o, s.tenant, o.GetName()) {
			return
		}
	}
	s.t.Fatalf("it is there still: %+v", o.Object["status"])
}

// ownedBy returns a change of the owner of a workspace.
func ownedBy(who string) func(*statebackend.Record) error {
	return func(r *statebackend.Record) error {
		r.Owner = who
		return nil
	}
}
