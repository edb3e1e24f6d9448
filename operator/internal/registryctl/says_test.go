// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestNothingMatches checks that an entry without a matching version is not Ready.
func TestNothingMatches(t *testing.T) {
	s := newNet(t, "1.0.0")
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Versions = "~> 9.0" })
	if message := s.says(m, false, v1alpha1.ReasonVersionMissing); !strings.Contains(message, "~> 9.0") || !trying(m) {
		t.Errorf("%q: %+v", message, m.Status)
	}
	s.mustReport(m, v1alpha1.ReasonVersionMissing)
	s.publish("9.0.1")
	s.again(m)
	s.says(m, true, v1alpha1.ReasonSynced)
	// Versions that matched before do not change that.
	s.change(m, func() { m.Spec.Versions = "~> 10.0" })
	s.says(m, false, v1alpha1.ReasonVersionMissing)
	d := &v1alpha1.Depot{}
	d.Namespace, d.Name = s.ns, "d"
	d.Spec.Modules = []v1alpha1.ModuleEntry{{Address: "net/none/aws", Source: s.source(), EntrySpec: v1alpha1.EntrySpec{Versions: "~> 10.0"}}}
	must.Succeed(t, s.Create(t.Context(), d))
	if message := s.says(d, false, v1alpha1.ReasonEntriesFailed); !strings.Contains(message, v1alpha1.ReasonVersionMissing) || stalled(d) {
		t.Errorf("%q: %+v", message, d.Status)
	}
}

// TestRegistryGoesAway: status, event and log tell before another try.
func TestRegistryGoesAway(t *testing.T) {
	s := newNet(t, "1.0.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.in.close(ocitest.Refuse)
	s.again(m)
	message := s.says(m, false, v1alpha1.ReasonFailed)
	if note := s.mustReport(m, v1alpha1.ReasonFailed); note != message || !strings.Contains(s.log.String(), "a run failed") {
		t.Errorf("the condition says %q, the event %q, the log:\n%s", message, note, s.log.String())
	}
	if list, _ := conditions(m); meta.FindStatusCondition(list, v1alpha1.ConditionStalled) != nil {
		t.Errorf("%+v", list)
	}
}

// TestEntryThatCannotBeMade is reported, the others made.
func TestEntryThatCannotBeMade(t *testing.T) {
	s := newNet(t, "1.0.0")
	d := &v1alpha1.Depot{}
	d.Namespace, d.Name = s.ns, "d"
	for _, address := range []string{"net-/vpc/aws", vpc} {
		d.Spec.Modules = append(d.Spec.Modules, v1alpha1.ModuleEntry{Address: address, Source: s.source()})
	}
	must.Succeed(t, s.Create(t.Context(), d))
	m := &v1alpha1.Module{}
	m.Namespace, m.Name = s.ns, "net.vpc.aws"
	s.until("the other entry is made", func() (bool, any) {
		return s.Get(t.Context(), client.ObjectKeyFromObject(m), m) == nil, d.Status
	})
	s.says(m, true, v1alpha1.ReasonSynced)
	s.until("the Depot says what is wrong", func() (bool, any) {
		message := s.says(d, false, v1alpha1.ReasonEntriesFailed)
		return strings.HasPrefix(message, "1 of 2 entries are not Ready: Module net-.vpc.aws is Failed; ") && strings.Contains(message, "metadata.name"), d.Status
	})
}

// TestLongRequests of any length lead to a run.
func TestLongRequests(t *testing.T) {
	s := newNet(t, "1.0.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.publish("1.1.0")
	s.change(m, func() {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationRequest, strings.Repeat("now ", 100))
	})
	s.clock.Add(int64(time.Minute))
	s.until("the run is told", func() (bool, any) { s.read(m); return m.Status.Latest == "1.1.0", m.Status })
}

// TestApprovalOfNothing checks that an unjudged Approval is marked, and deleted later.
//
// Shows: kinds 10 | Approvals of objects are deleted after 30 days
func TestApprovalOfNothing(t *testing.T) {
	s := newNet(t)
	s.clock.Add(int64(2 * time.Minute))
	for name, kind := range map[string]string{"version": "Version", "object": "VPC"} {
		a := &v1alpha1.Approval{}
		a.Namespace, a.Name = s.ns, name
		a.Spec = v1alpha1.ApprovalSpec{Target: v1alpha1.ApprovalTarget{Kind: kind, Name: "none"}, Plan: "sha256:0", Approver: "alice"}
		must.Succeed(t, s.Create(t.Context(), a))
		s.until(name+" says that nobody judges it", func() (bool, any) {
			s.read(a)
			c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
			return c != nil && c.Status == metav1.ConditionFalse && a.Status.Result == "" && strings.Contains(a.Status.Message, "is there a "+kind+" none in this namespace"), a.Status
		})
		s.clock.Add(int64(v1alpha1.ApprovalLife))
		look := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/look":"again"}}}`))
		if err := client.IgnoreNotFound(s.Patch(t.Context(), a, look)); err != nil { // it may be deleted already
			t.Fatal(err)
		}
		s.gone(a)
		s.clock.Add(-int64(v1alpha1.ApprovalLife))
	}
}
