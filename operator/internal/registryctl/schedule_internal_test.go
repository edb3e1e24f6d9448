// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// ran is a Module that ran successfully at a time, after which its status is written if need be.
func ran(name string, interval v1alpha1.Duration, at time.Time) *entry {
	m := &v1alpha1.Module{}
	m.UID, m.Spec.Interval = types.UID(name), &interval
	e := entryOf(m)
	e.succeed(at, false)
	return e
}

// succeed is a successful run, which finds nothing new unless changed; it reports whether the status is written.
func (e *entry) succeed(at time.Time, changed bool) bool {
	before := e.DeepCopyObject().(client.Object)
	if e.ran = true; changed {
		e.list.Published++
	}
	had := e.list.LastSyncTime
	e.recordSync(before, nil, at)
	return e.list.LastSyncTime != had
}

// TestRestartOf5000 lets 5,000 Modules, created within a minute, run for some hours, and starts the
// operator anew at several times: each runs next when it would have without that.
//
// Shows: operator 46 | a restart of 5,000 objects asks no origin anew: each keeps its turn, which its
// interval and UID give; idle runs write their time once a day
func TestRestartOf5000(t *testing.T) {
	created := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	minutes, writes := map[int]int{}, 0
	for i := range 5000 {
		at := created.Add(time.Duration(i) * time.Minute / 5000)
		e := ran(fmt.Sprint("uid-", i), "1h", at)
		wait := e.untilTurn(at, at)
		if wait < 30*time.Minute || wait > 90*time.Minute {
			t.Fatalf("the second run of %d after %s", i, wait)
		}
		for at = at.Add(wait); at.Sub(created) < 26*time.Hour; at = at.Add(wait) {
			if e.succeed(at, false) {
				writes++
			}
			wait = e.untilTurn(at.Add(time.Second), at.Add(time.Second)) + time.Second // it took a second
			must.Equal(t, "from run to run", wait, time.Hour)
			for _, after := range []time.Duration{2 * time.Second, time.Minute, 59 * time.Minute} {
				last, known := e.lastSync(at.Add(after))
				if next := after + e.untilTurn(at.Add(after), last); !known || next != wait {
					t.Fatalf("%d, started anew %s after a run: the next after %s, known %t", i, after, next, known)
				}
			}
			if at.Sub(created) > 25*time.Hour {
				minutes[at.Minute()]++
			}
		}
	}
	for minute, n := range minutes {
		if n > 150 {
			t.Errorf("%d of 5,000 runs in minute %d", n, minute)
		}
	}
	must.Equal(t, "writes of idle runs in a day", writes, 5000)
}

// TestMissedTurns checks which entries a start finds too late, and what is written when.
func TestMissedTurns(t *testing.T) {
	at := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		interval v1alpha1.Duration
		after    time.Duration
		known    bool
	}{
		{"1h", 25 * time.Hour, true}, {"1h", 26 * time.Hour, false}, {"24h", 35 * time.Hour, true}, {"24h", 37 * time.Hour, false}, {"168h", 8 * 24 * time.Hour, true}, {"168h", 11 * 24 * time.Hour, false},
		{"1h", -time.Second, true}, {"1h", -90 * 24 * time.Hour, false}, // by another clock
	} {
		if _, known := ran("a", c.interval, at).lastSync(at.Add(c.after)); known != c.known {
			t.Errorf("%s after a run of each %s: %t", c.after, c.interval, known)
		}
	}
	e := entryOf(&v1alpha1.Module{})
	if _, known := e.lastSync(at); known {
		t.Error("a Module that never ran has a turn")
	}
	e.ran = true
	e.recordSync(e.Object, errors.New("no answer"), at)
	if e.list.LastSyncTime != nil {
		t.Error("a run that failed counts")
	}
	e = ran("a", "1h", at)
	must.Equal(t, "nothing new", e.succeed(at.Add(time.Hour), false), false)
	must.Equal(t, "something new", e.succeed(at.Add(2*time.Hour), true), true)
	must.Equal(t, "a day later", e.succeed(at.Add(26*time.Hour), false), true)
	must.Equal(t, "after a clock that was ahead", e.succeed(at.Add(-90*24*time.Hour), false), true)

	before, after := e.DeepCopyObject().(*v1alpha1.Module), e.DeepCopyObject().(*v1alpha1.Module)
	after.ResourceVersion, after.Status.LastSyncTime = "2", &metav1.Time{Time: at.Add(50 * time.Hour)}
	must.Equal(t, "a Depot wakes for the time", moreThanTime().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), false)
	after.Status.Latest = "1.0.0"
	must.Equal(t, "a Depot wakes for a version", moreThanTime().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), true)
}
