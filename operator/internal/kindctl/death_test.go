// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// withWatch is a client that does not support watches.
type withWatch struct{ client.Client }

func (withWatch) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return nil, errors.New("no watch")
}

// TestDeaths kills an operator at each write of a kind's creation and removal: the
// next one finishes the work, and nothing happens twice.
//
// Shows: operator 32 | an operator is killed at any write of a kind, or of an object: the next one
// completes it, and leaves nothing behind
func TestDeaths(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	for n := 1; ; n++ {
		def := s.define("deaths", "Death", "{spec: {upgrade: {policy: Any}}}")
		deaths := 0
		var tried func() int // the writes of the operator that is killed; nil: of its successor
		s.start(func(c client.Client) (mortal client.Client) {
			mortal, tried = rig.Dying(withWatch{c}, n, true)
			return mortal
		})
		o := s.object("Death", "one", "10.0.0.0/16")
		step := func(what string, is func() bool) {
			s.until(what, func() (bool, any) {
				if tried != nil && tried() >= n {
					deaths++
					s.stop()
					s.start(nil)
					tried = nil
				}
				return is(), nil
			})
		}
		step("it is a kind", func() bool { return s.Create(t.Context(), o) == nil })
		step("it runs", func() bool { return s.there(o) && text(o, "status", "module", "version") != "" })
		must.Succeed(t, s.Delete(t.Context(), o))
		step("the object is gone", func() bool { return !s.there(o) })
		must.Succeed(t, s.Delete(t.Context(), def))
		step("the definition is gone", func() bool { return !s.there(def) })
		for _, left := range []client.Object{
			&apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "deaths.apps.okara.dev"}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-deaths-view"}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "okara-deaths-edit"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: "okara-kind-deaths"}},
		} {
			if s.there(left) {
				t.Errorf("death at write %d: %T %s is left", n, left, left.GetName())
			}
		}
		s.stop()
		if deaths == 0 {
			if n < 8 {
				t.Errorf("a kind is made and removed with %d writes", n)
			}
			return
		}
	}
}
