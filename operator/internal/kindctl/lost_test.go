// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestStatusLost empties the status of an object, and recreates the object, after a newer
// version of its module that it does not upgrade to by itself: it keeps its version and, if
// an administrator says so, all that was made for the first object.
//
// Shows: operator 29
func TestStatusLost(t *testing.T) {
	s, def := startKind(t, "losts", "Lost", "")
	o := s.object("Lost", "a", "10.0.0.0/16")
	s.create(o)
	has := func(what, version, uid string) {
		t.Helper()
		s.until(what, func() (bool, any) {
			s.read(o)
			return text(o, "status", "module", "version") == version && text(o, "status", "uid") == uid, o.Object["status"]
		})
	}
	has("it runs", "1.0.0", s.uid(o))
	s.publish("1.1.0", network(""))
	s.until("there is a newer version", func() (bool, any) {
		s.read(def)
		return def.Status.UpdateAvailable == "1.1.0" && def.Status.Module.Version == "1.0.0", def.Status
	})
	first := s.uid(o)
	s.empties(o)
	has("it has its version", "1.0.0", first)

	s.runs.fail("a", v1alpha1.ReasonStateExists)
	change(s, o, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(o)
	o = s.object("Lost", "a", "10.0.0.0/16")
	s.create(o)
	has("the next one of its name has its version and nothing else", "1.0.0", "")
	change(s, o, func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationAdopt: "true"})
	})
	has("an administrator gives it what the first one made", "1.0.0", first)
	s.remove(def)
}

// empties removes the status of an object, as backups do.
func (s *site) empties(o *unstructured.Unstructured) {
	s.t.Helper()
	s.until("its status is emptied", func() (bool, any) {
		s.read(o)
		o.Object["status"] = map[string]any{}
		err := s.Status().Update(s.t.Context(), o)
		if err != nil && !apierrors.IsConflict(err) { // the operator may write at this moment
			s.t.Fatal(err)
		}
		return err == nil, err
	})
}

func (s *site) uid(o *unstructured.Unstructured) string {
	s.t.Helper()
	s.read(o)
	return string(o.GetUID())
}

// TestDefinitionAnew recreates a definition, as a backup does that also restores what was
// made for the first one, after a version was published that does not fit its objects: the kind
// keeps its version and schema, and the objects continue unchanged.
//
// Shows: operator 29
func TestDefinitionAnew(t *testing.T) {
	s, def := startKind(t, "anews", "Anew", "")
	o := s.object("Anew", "a", "10.0.0.0/16")
	s.create(o)
	runs := func() {
		t.Helper()
		s.until("it runs", func() (bool, any) {
			s.read(o)
			return text(o, "status", "module", "version") == "1.0.0" && text(o, "status", "uid") != "", o.Object["status"]
		})
	}
	runs()
	s.stop()
	change(s, def, func(def *v1alpha1.ModuleKind) { def.Finalizers = nil })
	must.Succeed(t, s.Delete(t.Context(), def))
	s.gone(def)
	s.empties(o)
	s.publish("1.1.0", network("variable \"zone\" {\n  type = string\n  nullable = false\n}\n"))
	def = s.define("anews", "Anew", "")
	s.start(nil)
	s.ready(def)
	runs()
	if def.Status.Module.Version != "1.0.0" || def.Status.UpdateAvailable != "1.1.0" {
		t.Errorf("the kind has %+v", def.Status)
	}
	s.create(s.object("Anew", "b", "10.1.0.0/16")) // without the input that 1.1.0 requires
	s.remove(def)
}

// TestRolloutBatchRemembers empties the status of the object at which an upgrade stopped:
// the upgrade does not go on to other objects.
//
// Shows: operator 26
func TestRolloutBatchRemembers(t *testing.T) {
	s, def := startKind(t, "forgets", "Forget", "{spec: {upgrade: {policy: Minor, maxConcurrent: 1}}}")
	s.four("Forget")
	s.runs.fail("a", "Broken")
	s.publish("1.1.0", network(""))
	s.says(def, metav1.ConditionFalse, v1alpha1.ReasonUpgradeStopped)
	a := s.object("Forget", "a", "")
	s.empties(a)
	s.until("it is as it was", func() (bool, any) {
		s.read(a)
		return text(a, "status", "module", "version") == "1.1.0" && len(verdict.Conditions(a)) > 0, a.Object["status"]
	})
	change(s, def, func(def *v1alpha1.ModuleKind) {
		def.Annotations = map[string]string{v1alpha1.AnnotationRequest: "look again"}
	})
	s.until("the operator looked again", func() (bool, any) { s.read(def); return def.Status.LastHandledRequest != "", def.Status })
	s.says(def, metav1.ConditionFalse, v1alpha1.ReasonUpgradeStopped)
	must.Equal(t, "they run", s.versions("Forget"), "1.1.0 1.0.0 1.0.0 1.0.0")
	s.remove(def)
}
