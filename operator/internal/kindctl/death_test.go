// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// mortal is a client that dies at a write: that write is carried out but returns an error,
// and each later one fails, like those of an operator that was killed.
type mortal struct {
	left atomic.Int64
	dead chan struct{}
}

var errKilled = errors.New("killed")

func (m *mortal) write(do func() error) error {
	switch left := m.left.Add(-1); {
	case left < 0:
		return errKilled
	case left == 0:
		err := do()
		close(m.dead)
		return errors.Join(err, errKilled)
	}
	return do()
}

func (m *mortal) wrap(c client.Client) client.Client {
	return interceptor.NewClient(withWatch{c}, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return m.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

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
	for n := int64(1); ; n++ {
		def := s.define("deaths", "Death", "{spec: {upgrade: {policy: Any}}}")
		deaths := 0
		m := &mortal{dead: make(chan struct{})}
		m.left.Store(n)
		s.start(m.wrap)
		o := s.object("Death", "one", "10.0.0.0/16")
		step := func(what string, is func() bool) {
			s.until(what, func() (bool, any) {
				select {
				case <-m.dead:
					deaths++
					s.stop()
					s.start(nil)
					m = &mortal{}
				default:
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
