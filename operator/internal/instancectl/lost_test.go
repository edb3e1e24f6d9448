// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestErrorStays checks that an Instance reports a failed clean-up, and stops no other.
//
// Shows: operator 28
func TestErrorStays(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	leader, p := s.leader(), s.portal()
	first := s.ready("anna")
	s.engine.keep(first, errors.New("secrets is forbidden"))
	must.Get(s.do(p, "anna", lifecycle.DestroyNow{ID: first}))(t)
	s.run(leader, "it says why it stays", func() bool {
		c := meta.FindStatusCondition(s.all()[first].Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "secrets is forbidden")
	})
	second := must.Get(s.create(p, "ben", "sandbox/vpc", ""))(t)
	s.run(leader, "another one is ready", s.is(second.Record.ID, "Ready"))
	s.run(s.leader(), "one that another leader finds", s.is(second.Record.ID, "Ready"))
	s.engine.keep(first, nil)
	s.run(s.leader(), "it goes", func() bool { return s.ended("vpc-"+first) && s.all()[first] == nil })
}

// ready creates an Instance and waits until a leader has made it ready.
func (s *site) ready(who string) string {
	s.t.Helper()
	a := must.Get(s.create(s.portal(), who, "sandbox/vpc", ""))(s.t)
	s.run(s.leader(), "it is ready", s.is(a.Record.ID, "Ready"))
	return a.Record.ID
}

// empties removes the status of an Instance, as backups do.
func (s *site) empties(id string) {
	s.t.Helper()
	o := s.all()[id]
	o.Status = v1alpha1.InstanceStatus{}
	must.Succeed(s.t, s.client.Status().Update(s.t.Context(), o))
}

// anew recreates an Instance without its status: its UID is another one.
func (s *site) anew(id string) {
	s.t.Helper()
	o := s.all()[id]
	next := o.DeepCopy()
	next.Status, next.ResourceVersion, next.UID = v1alpha1.InstanceStatus{}, "", ""
	next.DeletionTimestamp, next.DeletionGracePeriodSeconds = nil, nil
	o.Finalizers = nil
	must.Succeed(s.t, s.client.Update(s.t.Context(), o))
	if err := s.client.Delete(s.t.Context(), o); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	must.Succeed(s.t, s.client.Create(s.t.Context(), next))
}

// TestStatusLost empties statuses and recreates Instances before, during and after a run:
// each continues, is known by its first UID, and leaves nothing behind.
//
// Shows: operator 29 | an Instance or an object of a kind whose status is emptied, or which is
// recreated without it, before, during and after a run, continues unchanged; another owner's object
// does not get its resources
func TestStatusLost(t *testing.T) {
	for name, lose := range map[string]func(*site, string){
		"emptied": (*site).empties, "made anew": (*site).anew, "emptied of a team": (*site).empties, "made anew of a team": (*site).anew,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.template("sandbox.vpc", nil)
			s.engine.hold(true)
			name := s.begin(strings.HasSuffix(name, "team"))
			s.run(s.leader(), "it runs", func() bool { n, _ := s.engine.attempts(s.all()[name].Status.ID); return n == 1 })
			id := s.all()[name].Status.ID
			_, uid := s.engine.attempts(id)
			lose(s, name)
			s.run(s.leader(), "it runs again", s.is(name, "Provisioning"))
			s.engine.hold(false)
			s.run(s.leader(), "it is ready", s.is(name, "Ready"))
			end := s.all()[name].Status.ExpiresAt
			lose(s, name)
			s.run(s.leader(), "it is ready again", s.is(name, "Ready"))
			now := s.all()[name].Status
			if n, last := s.engine.attempts(id); n != 1 || last != uid || now.UID != uid || now.ID != id || !now.ExpiresAt.Equal(end) {
				t.Errorf("%d attempts, known as %s, was %s: %+v", n, last, uid, now)
			}
			s.engine.fails = func(a run.Attempt) error {
				if a.Kind == lifecycle.RunDestroy {
					return errBroken
				}
				return nil
			}
			must.Succeed(t, s.client.Delete(t.Context(), s.all()[name]))
			s.run(s.leader(), "it is being destroyed", s.is(name, "Destroying"))
			s.empties(name)
			s.engine.fails = nil
			s.clock.Step(26 * time.Hour)
			s.run(s.leader(), "nothing is left", func() bool { return s.ended("vpc-"+id) && s.all()[name] == nil })
			if _, last := s.engine.attempts(id); s.engine.left() != 0 || last != uid {
				t.Errorf("%d resources are left; destroyed as %s, made as %s", s.engine.left(), last, uid)
			}
			if left := s.kept(); len(left) != 0 {
				t.Errorf("records are left: %v", left)
			}
		})
	}
}

// kept returns the names of the records that the operator stores.
func (s *site) kept() (names []string) {
	s.t.Helper()
	var list corev1.ConfigMapList
	must.Succeed(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.operatorNamespace), client.HasLabels{v1alpha1.LabelRecord}))
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	return names
}

// TestRecordOfAnother checks that another owner's new Instance with the name of a deleted
// one does not get the resources of that.
//
// Shows: operator 29
func TestRecordOfAnother(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	id := s.ready("anna")
	o := s.all()[id]
	o.Finalizers = nil
	must.Succeed(t, s.client.Update(t.Context(), o))
	must.Succeed(t, s.client.Delete(t.Context(), o))
	other := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: id}, Spec: v1alpha1.InstanceSpec{
		Template: "sandbox/vpc", Owner: &v1alpha1.Owner{Kind: "User", ID: "eve"}, CreatedBy: "eve",
	}}
	must.Succeed(t, s.client.Create(t.Context(), other))
	s.run(s.leader(), "it is judged", func() bool { return s.all()[id].Status.Phase != "" })
	if got := s.all()[id].Status; got.UID != s.all()[id].UID {
		t.Errorf("it is known as %s, the first one: %+v", got.UID, got)
	}
}

// TestRecordThatIsBroken says why it stops, and goes on.
func TestRecordThatIsBroken(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	id := s.ready("anna")
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operatorNamespace, Name: s.kept()[0]}}
	change := func(how func()) {
		t.Helper()
		must.Succeed(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(record), record))
		how()
		must.Succeed(t, s.client.Update(t.Context(), record))
	}
	var data, labels map[string]string
	change(func() { data, record.Data = record.Data, map[string]string{"record.json": "{"} })
	s.empties(id)
	s.run(s.leader(), "it says what is wrong with the record", s.says(id, v1alpha1.ConditionReconciling, "the record of instances"))
	change(func() { record.Data = data })
	s.run(s.leader(), "it is ready", s.isReady(id))

	change(func() { labels, record.Labels = record.Labels, nil })
	s.run(s.leader(), "it says whose the record is not", s.says(id, v1alpha1.ConditionReconciling, "is not okara's"))
	change(func() { record.Labels = labels })
	s.run(s.leader(), "it is ready again", s.isReady(id))
}

type counted struct {
	base http.RoundTripper
	n    *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/configmaps/okara-record.") {
		c.n.Add(1)
	}
	return c.base.RoundTrip(r)
}

// TestWhatIsNotLaunched costs no request a reconcile.
func TestWhatIsNotLaunched(t *testing.T) {
	s := newSite(t)
	var requests atomic.Int64
	s.operator = rest.CopyConfig(s.operator)
	s.operator.Wrap(func(base http.RoundTripper) http.RoundTripper { return counted{base, &requests} })
	leader := s.leader()
	(&asked{s, "pppppppppe"}).ask("anna")
	s.run(leader, "it says why it waits", func() bool {
		o := s.all()["pppppppppe"]
		return o.Status.Handled != nil && o.Status.Handled.Refused != ""
	})
	before := requests.Load()
	for range 5 {
		must.Get(leader.Reconcile(t.Context()))(t)
	}
	must.Equal(t, "requests in 5 passes", requests.Load()-before, 0)
	s.template("sandbox.vpc", nil)
	s.run(leader, "it is ready", s.is("pppppppppe", "Ready"))
	s.empties("pppppppppe")
	s.run(leader, "it is ready still", s.is("pppppppppe", "Ready"))

	o := &v1alpha1.Instance{Spec: v1alpha1.InstanceSpec{Template: "sandbox/vpc", Version: "9.9.9", Owner: &v1alpha1.Owner{Kind: "User", ID: "anna"}, CreatedBy: "anna"}}
	o.Namespace = s.settings.Namespace
	o.Name = "ppppppppph"
	must.Succeed(t, s.client.Create(t.Context(), o))
	s.run(leader, "its version is refused", s.is(o.Name, "Rejected"))
	before = requests.Load()
	for range 5 {
		must.Get(leader.Reconcile(t.Context()))(t)
	}
	must.Equal(t, "requests in 5 passes", requests.Load()-before, 0)
	must.Succeed(t, s.client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":null}}`))))
	s.run(leader, "the next generation is launched", s.is(o.Name, "Ready"))
}
