// SPDX-License-Identifier: Apache-2.0

package fluxobj_test

import (
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

type world struct {
	t *testing.T
	fluxobj.Client
	ns string
}

func newWorld(t *testing.T) world {
	t.Helper()
	c := must.Get(client.New(cluster.Admin(t), client.Options{}))(t)
	return world{t, fluxobj.Client{Client: c, UID: "a"}, cluster.Namespace(t, nil).Name}
}

// object returns an object of ours with some data. The kind does not matter.
func (w world) object(data map[string]string) *unstructured.Unstructured {
	w.t.Helper()
	return must.Get(fluxobj.Encode(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"namespace": w.ns, "name": "object", "labels": fluxobj.Labels(nil, w.UID)},
	}))(w.t)
}

func (w world) ensure(data map[string]string, changes bool) *unstructured.Unstructured {
	w.t.Helper()
	now, changed, err := w.Ensure(w.t.Context(), w.object(data))
	if err != nil || changed != changes {
		w.t.Fatalf("changed %t, want %t: %v", changed, changes, err)
	}
	return now
}

// TestWrite: our fields follow, others stay, nothing without a change.
func TestWrite(t *testing.T) {
	w := newWorld(t)
	w.ensure(map[string]string{"a": "1", "b": "1"}, true)
	o := w.ensure(map[string]string{"a": "1", "b": "1"}, false)
	theirs := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"c":"1"}}`))
	must.Succeed(t, w.Client.Patch(t.Context(), o, theirs, client.FieldOwner("somebody")))
	w.ensure(map[string]string{"a": "1", "b": "1"}, false)
	o = w.ensure(map[string]string{"a": "2"}, true)
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil || len(data) != 2 || data["a"] != "2" || data["c"] != "1" {
		t.Errorf("it has %v: %v", data, err)
	}
	theirs = client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"3"}}`))
	must.Succeed(t, w.Client.Patch(t.Context(), o, theirs, client.FieldOwner("somebody")))
	w.ensure(map[string]string{"a": "2"}, true)
}

// TestWriteAnother leaves what replaced the object.
func TestWriteAnother(t *testing.T) {
	w := newWorld(t)
	before := w.ensure(map[string]string{"a": "1"}, true)
	must.Succeed(t, w.Remove(t.Context(), before))
	now := w.ensure(map[string]string{"a": "1"}, true)
	if _, _, err := w.Write(t.Context(), before, w.object(map[string]string{"a": "2"})); err == nil {
		t.Error("it was written")
	}
	if err := w.Remove(t.Context(), before); !apierrors.IsConflict(err) {
		t.Errorf("it was deleted: %v", err)
	}
	if err := w.Change(t.Context(), before, map[string]any{"data": map[string]any{"a": "3"}}); !apierrors.IsConflict(err) {
		t.Errorf("it was changed: %v", err)
	}
	var m corev1.ConfigMap
	if err := w.Client.Client.Get(t.Context(), client.ObjectKeyFromObject(now), &m); err != nil || m.Data["a"] != "1" {
		t.Errorf("it has %v: %v", m.Data, err)
	}
}

// TestKindMissing checks that the error names a kind that the cluster does not know.
func TestKindMissing(t *testing.T) {
	w := newWorld(t)
	_, err := w.Get(t.Context(), "nothing.example.com/v1", "Nothing", client.ObjectKey{Namespace: w.ns, Name: "a"})
	if e, ok := errors.AsType[*fluxobj.MissingError](err); !ok || e.Kind.Group != "nothing.example.com" {
		t.Errorf("%v", err)
	}
}
