// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestAskedDuringARun lets a Version change during a run that has read the Versions
// already: in the first run of an object, then in a later one.
func TestAskedDuringARun(t *testing.T) {
	var s schedule
	now := time.Now()
	e := entryOf(&v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "vpc", UID: "1", Generation: 1}})
	name := client.ObjectKeyFromObject(e)
	for _, run := range []string{"first", "second"} {
		if pending, _ := s.pending(e, now); !pending {
			t.Fatalf("the %s run is not due", run)
		}
		s.begin(name)
		s.ask(name)
		s.ran(e, false, now)
	}
	if due, _ := s.pending(e, now); !due {
		t.Fatal("what was asked for during the second run is not due")
	}
	s.begin(name)
	s.ran(e, false, now)
	if due, _ := s.pending(e, now); due {
		t.Error("a run that nobody asked for is due")
	}
	s.ask(name)
	s.forget(name)
	if len(s.asked)+len(s.runs) > 0 {
		t.Error("what was asked for outlives the object")
	}
}
