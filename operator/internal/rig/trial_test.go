// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// greeting is a module with outputs of two types, and without a provider.
const greeting = `
variable "name" {
  type = string
}

resource "terraform_data" "greeting" {
  input = "hello, ${var.name}"
}

output "text" {
  value = terraform_data.greeting.output
}

output "list" {
  value = ["a", "b"]
}
`

// rawOutputs is the name of the Secret with the outputs of a run.
const rawOutputs = "greeting-raw"

// trial is a module in its own registry, and a namespace to run it in.
type trial struct {
	flux
	t          *testing.T
	depot      *depot.Depot
	ns         string
	repository string
	digest     string // of version 1.0.0
	state      string // address of its state
	token      string // Secret with the token for it
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	return newTrialWith(t, Tofu)
}

// newTrialWith returns a trial with the controller engine.
func newTrialWith(t *testing.T, engine string) *trial {
	t.Helper()
	r := &trial{flux: newFlux(t, Manager, Source, engine), t: t, ns: cluster.Namespace(t, nil).Name}
	okara := serve(t)
	r.depot, _ = depottest.NewDepot(t, okara, oci.Options{})
	r.state = "http://" + okara + "/state/rig/" + r.ns
	published := r.publish("1.0.0", greeting)
	r.repository, r.digest = published.Repository, published.Digest
	return r
}

func (r *trial) publish(version, content string) depot.Published {
	r.t.Helper()
	return must.Get(r.depot.PublishModule(r.t.Context(), fstest.MapFS{"main.tf": {Data: []byte(content)}},
		depottest.MustModule(r.t, "acme/greeting/any", version), depot.ModuleOptions{}))(r.t)
}

func (r *trial) spec() fluxexec.Spec {
	return fluxexec.Spec{
		Namespace: r.ns, Name: "greeting",
		Module:        fluxexec.Module{Repository: r.repository, Digest: r.digest, PlainHTTP: true},
		State:         fluxexec.State{Address: r.state, TokenSecret: r.token},
		Variables:     map[string]json.RawMessage{"name": []byte(`"okara"`)},
		OutputsSecret: rawOutputs,
	}
}

// built returns the objects of a run as the operator builds them.
func (r *trial) built() (source, run *unstructured.Unstructured) {
	r.t.Helper()
	objects := must.Get(fluxexec.Build(r.spec()))(r.t)
	var list []*unstructured.Unstructured
	for _, o := range objects {
		b := must.Get(json.Marshal(o))(r.t)
		list = append(list, object(r.t, string(b)))
	}
	return list[0], list[1]
}

// source creates the object that fetches the module.
func (r *trial) source() *unstructured.Unstructured {
	r.t.Helper()
	source, _ := r.built()
	return r.create(r.t, source)
}

// run creates the object that applies the module, with changes to its spec.
func (r *trial) run(how func(spec map[string]any)) *unstructured.Unstructured {
	r.t.Helper()
	_, run := r.built()
	spec := run.Object["spec"].(map[string]any)
	spec["retryInterval"] = "2s" // shortens the test
	if how != nil {
		how(spec)
	}
	return r.create(r.t, run)
}

func (r *trial) secret(name, key, value string) *corev1.Secret {
	r.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name}, Data: map[string][]byte{key: []byte(value)}}
	must.Succeed(r.t, r.Create(r.t.Context(), s))
	return s
}

func (r *trial) set(o *unstructured.Unstructured, how func(spec map[string]any)) {
	r.t.Helper()
	r.change(r.t, o, func() { how(o.Object["spec"].(map[string]any)) })
}

// again requests a run.
func (r *trial) again(o *unstructured.Unstructured) {
	r.t.Helper()
	r.change(r.t, o, func() {
		o.SetAnnotations(map[string]string{"reconcile.fluxcd.io/requestedAt": o.GetResourceVersion()})
	})
}

// waits waits until a run has a plan of its current spec, and returns the plan's ID.
func (r *trial) waits(o *unstructured.Unstructured) string {
	r.t.Helper()
	var id string
	until(r.t, "a plan waits", func() (bool, any) {
		r.read(r.t, o)
		id = text(r.t, o, "status", "plan", "pending")
		planned, _ := must.GetBoth(unstructured.NestedInt64(o.Object, "status", "lastPlannedGeneration"))(r.t)
		return id != "" && planned == o.GetGeneration(), o.Object["status"]
	})
	return id
}

// stored returns the state, or "" if there is none.
func (r *trial) stored() string {
	r.t.Helper()
	resp := must.Get(http.Get(r.state))(r.t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotFound {
		r.t.Fatalf("%s: %s: %s %v", r.state, resp.Status, b, err)
	}
	return string(b)
}

// applied reports whether the state has the resource of the module.
func (r *trial) applied() bool {
	r.t.Helper()
	return strings.Contains(r.stored(), `"terraform_data"`)
}
