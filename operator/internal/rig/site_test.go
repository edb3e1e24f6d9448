// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
)

var cluster Cluster

func TestMain(m *testing.M) { os.Exit(Main(m, &cluster)) }

// patience bounds each wait. Slow machines need much of it; passing tests usually do not.
const patience = 4 * time.Minute

// flux reads and writes objects of a cluster that has controllers.
type flux struct{ client.WithWatch }

func newFlux(t *testing.T, controllers ...string) flux {
	t.Helper()
	c := must.Get(client.NewWithWatch(cluster.With(t, controllers...), client.Options{}))(t)
	return flux{c}
}

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must.Succeed(t, yaml.Unmarshal([]byte(manifest), &o.Object))
	return o
}

// create creates an object. Unknown fields are errors.
func (f flux) create(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	must.Succeed(t, client.WithFieldValidation(f, metav1.FieldValidationStrict).Create(t.Context(), o))
	return o
}

func (f flux) read(t *testing.T, o client.Object) {
	t.Helper()
	must.Succeed(t, f.Get(t.Context(), client.ObjectKeyFromObject(o), o))
}

func (f flux) change(t *testing.T, o client.Object, how func()) {
	t.Helper()
	f.read(t, o)
	before := o.DeepCopyObject().(client.Object)
	how()
	must.Succeed(t, f.Patch(t.Context(), o, client.MergeFrom(before)))
}

func (f flux) delete(t *testing.T, o client.Object) {
	t.Helper()
	must.Succeed(t, f.Delete(t.Context(), o))
}

// ready waits until the current generation of an object of Flux is Ready.
func (f flux) ready(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	f.says(t, o, "Ready", "True")
}

// says waits for a condition of the current generation.
func (f flux) says(t *testing.T, o *unstructured.Unstructured, condition, status string) {
	t.Helper()
	until(t, o.GetName()+" has "+condition+"="+status, func() (bool, any) {
		f.read(t, o)
		list, _ := must.GetBoth(unstructured.NestedSlice(o.Object, "status", "conditions"))(t)
		return slices.ContainsFunc(list, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && m["type"] == condition && m["status"] == status && about(m["observedGeneration"], o)
		}), o.Object["status"]
	})
}

func about(generation any, o client.Object) bool {
	return generation == nil || generation == o.GetGeneration()
}

// gone waits until an object does not exist.
func (f flux) gone(t *testing.T, o client.Object) {
	t.Helper()
	until(t, o.GetName()+" is gone", func() (bool, any) {
		err := f.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), o
	})
}

// okaraPath returns the path of the okara that make builds.
func okaraPath() string { return filepath.Join(Root(), "bin", "okara") }

// serve starts okara with its own registry and returns its listen address.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	port := must.Get(FreeAddresses(1))(t)
	args = append([]string{"serve", "--listen", port[0], "--storage", t.TempDir()}, args...)
	p := must.Get(Launch(t.TempDir(), okaraPath(), nil, args...))(t)
	t.Cleanup(p.Kill)
	must.Succeed(t, p.AwaitOK(http.DefaultClient, "http://"+port[0]+"/readyz"))
	return port[0]
}

func text(t *testing.T, o *unstructured.Unstructured, path ...string) string {
	t.Helper()
	s, _ := must.GetBoth(unstructured.NestedString(o.Object, path...))(t)
	return s
}

// until waits, or fails with the last value.
func until(t *testing.T, what string, is func() (bool, any)) {
	t.Helper()
	var last any
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var ok bool
		ok, last = is()
		return ok, nil
	}); err != nil {
		t.Fatalf("never: %s: %+v", what, last)
	}
}
