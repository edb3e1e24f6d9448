// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestKind follows the life of a definition: it becomes a kind with roles, its objects are
// reconciled, and it leaves nothing behind. Without changes nothing is written.
//
// Shows: operator 25 | invalid objects are refused, and nothing is created for them; the schema
// accepts what the module accepts, and no more
// Shows: operator 26
func TestKind(t *testing.T) {
	s, def := startKind(t, "lifes", "Life", "{spec: {outputs: {include: [vpc_id]}}}")
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "lifes.apps.okara.dev"}}
	s.read(crd)
	view := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-lifes-view"}}
	s.read(view)
	if view.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" || def.Status.Module.Version != "1.0.0" || !strings.Contains(def.Status.Example, "kind: "+def.Spec.Names.Kind) {
		t.Errorf("the role is %+v, the status %+v", view, def.Status)
	}

	bad := s.object("Life", "bad", "ten")
	if err := s.Create(t.Context(), bad); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "no range of addresses") {
		t.Errorf("a bad range is %v", err)
	}
	if s.runs.by("bad") != nil {
		t.Error("a refused object is carried out")
	}
	o := s.object("Life", "good", "10.0.0.0/16")
	s.create(o)
	s.until("it is carried out", func() (bool, any) {
		s.read(o)
		return s.runs.by("good") != nil && text(o, "status", "module", "version") == "1.0.0", o
	})
	s.until("it is counted", func() (bool, any) { s.read(def); return def.Status.Objects == 1, def.Status })

	versions := func() [3]string {
		s.read(crd)
		s.read(def)
		s.read(view)
		return [3]string{crd.ResourceVersion, def.ResourceVersion, view.ResourceVersion}
	}
	before := versions()
	s.publish("0.9.0", network("")) // not allowed: the next check of the registry finds nothing new
	change(s, o, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "b"}) })
	s.until("it was looked at", func() (bool, any) { return s.runs.by("good") != nil, nil })
	if after := versions(); after != before {
		t.Errorf("written again: %v, %v", before, after)
	}

	must.Succeed(t, s.Delete(t.Context(), def))
	c := s.says(def, metav1.ConditionFalse, v1alpha1.ReasonObjectsExist)
	if !strings.Contains(c.Message, "1 of its objects") {
		t.Errorf("it says %s", c.Message)
	}
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(def)
	for _, left := range []client.Object{crd, view, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: "okara-kind-lifes"}}} {
		if s.there(left) {
			t.Errorf("%T %s is left", left, left.GetName())
		}
	}
}

// TestVerbs checks that the API server does with a generated kind all it usually does.
//
// Shows: operator 24 | objects of a kind can be waited for, watched, patched, explained, dry-run,
// listed as tables and deleted together
func TestVerbs(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(`variable "size" {
  type        = number
  description = "Number of hosts."
  default     = 3
}`))
	s.start(nil)
	def := s.define("verbs", "Verb", "{spec: {names: {shortNames: [vb]}}}")
	s.ready(def)

	dry := s.object("Verb", "dry", "10.0.0.0/16")
	if err := s.Create(t.Context(), dry, client.DryRunAll); err != nil || s.there(s.object("Verb", "dry", "")) {
		t.Errorf("a dry run: %v", err)
	}
	if size, _, _ := unstructured.NestedInt64(dry.Object, "spec", "size"); size != 3 {
		t.Errorf("the default is not shown: %+v", dry.Object["spec"])
	}
	unknown := s.object("Verb", "typo", "10.0.0.0/16")
	unknown.Object["spec"].(map[string]any)["sice"] = int64(1)
	if err := client.WithFieldValidation(s, metav1.FieldValidationStrict).Create(t.Context(), unknown); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field is %v", err)
	}

	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps.okara.dev/v1alpha1")
	list.SetKind("VerbList")
	w := must.Get(s.Watch(t.Context(), list, client.InNamespace(s.tenant)))(t)
	defer w.Stop()
	o := s.object("Verb", "one", "10.0.0.0/16")
	s.create(o)
	for e := range w.ResultChan() { // kubectl wait --for=condition=Ready
		conditions, _, _ := unstructured.NestedSlice(e.Object.(*unstructured.Unstructured).Object, "status", "conditions")
		if len(conditions) > 0 && conditions[0].(map[string]any)["status"] == "True" {
			break
		}
	}
	change(s, o, func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["size"] = int64(5) })
	if size, _, _ := unstructured.NestedInt64(o.Object, "spec", "size"); size != 5 || o.GetGeneration() != 2 {
		t.Errorf("patched, it is %+v", o.Object)
	}

	d := must.Get(discovery.NewDiscoveryClientForConfig(s.admin))(t)
	b, err := d.RESTClient().Get().AbsPath("/apis/apps.okara.dev/v1alpha1/namespaces/"+s.tenant+"/verbs").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	var table metav1.Table
	if err == nil {
		err = json.Unmarshal(b, &table)
	}
	if err != nil || len(table.Rows) != 1 || len(table.ColumnDefinitions) != 9 || table.ColumnDefinitions[1].Name != "Phase" {
		t.Errorf("the table is %s, %v", b, err)
	}
	s.until("it is explained", func() (bool, any) { // kubectl explain
		b, err := d.RESTClient().Get().AbsPath("/openapi/v3/apis/apps.okara.dev/v1alpha1").Do(t.Context()).Raw()
		return err == nil && strings.Contains(string(b), "Number of hosts."), err
	})

	s.create(s.object("Verb", "two", "10.1.0.0/16"))
	must.Succeed(t, s.DeleteAllOf(t.Context(), s.object("Verb", "", ""), client.InNamespace(s.tenant)))
	s.until("all are gone", func() (bool, any) {
		err := s.List(t.Context(), list, client.InNamespace(s.tenant))
		return err == nil && len(list.Items) == 0, err
	})
	s.remove(def)
}

// TestRefusals has a definition for each reason why a kind cannot be created or changed.
//
// Shows: operator 27 | a definition that cannot become a kind, or not yet, reports why: its module,
// its keys, a moved tag, another kind with its name, no tofu-controller
func TestRefusals(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	s.publish("2.0.0", network("action \"local_command\" \"a\" {}"))
	s.start(nil)

	for _, c := range []struct{ plural, more, reason, text string }{
		{"actions", "{spec: {module: {version: 2.0.0}}}", v1alpha1.ReasonInvalid, "the executor runs opentofu, which refuses the module: it uses "},
		{"wrongs", "{spec: {schema: {expose: [none]}}}", v1alpha1.ReasonSchemaInvalid, "spec.schema.expose: no input none"},
		{"futures", "{spec: {module: {version: '>= 7.0.0'}}}", v1alpha1.ReasonVersionMissing, "matches \">= 7.0.0\""},
		{"nonsenses", "{spec: {module: {version: 1.2.3.4.5}}}", v1alpha1.ReasonInvalid, "spec.module.version"},
		{"nowheres", "{spec: {module: {address: net/none/aws}}}", v1alpha1.ReasonModuleMissing, "no version of module net/none/aws"},
		{"unsigneds", "{spec: {module: {verify: {keys: [" + newKey(t) + "]}}}}", v1alpha1.ReasonNotVerified, "not verified"},
	} {
		def := s.define(c.plural, strings.ToUpper(c.plural[:1])+c.plural[1:], c.more)
		if got := s.says(def, metav1.ConditionFalse, c.reason); !strings.Contains(got.Message, c.text) {
			t.Errorf("%s: %s", c.plural, got.Message)
		}
		s.remove(def)
	}
	def := s.define("owns", "Owns", "{spec: {module: {version: 2.0.0}, run: {runner: {image: registry.example.com/terraform:1}}}}")
	s.says(def, metav1.ConditionTrue, v1alpha1.ReasonEstablished) // the tool of an image is not known
	s.remove(def)
}

// newKey returns a public key that signed nothing, in YAML.
func newKey(t *testing.T) string {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)
	return strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}
