// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// launch applies a stored launch request of anna, and returns its record.
func (w *world) launch(id string, t *template.Template, refused string) *lifecycle.Record {
	w.t.Helper()
	w.must(anna, lifecycle.Launch{ID: id, Of: t.Name, Refused: refused, Create: lifecycle.Create{
		Template: t, Digest: digestOf(t), Source: source("1.0.0"), Owner: user(anna), Name: "mine",
	}})
	return w.record(id)
}

func TestLaunch(t *testing.T) {
	two := with(func(t *template.Template) { t.PerOwner = 2 })
	w := newWorld(t)
	for _, id := range []string{"abcdefghjk", "abcdefghjm"} {
		if r := w.launch(id, two, ""); r.Phase != lifecycle.Provisioning || !r.Owner.Same(user(anna)) || r.Name != "mine" || r.Run == nil {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r := w.launch("abcdefghjn", two, ""); r.Phase != lifecycle.Rejected || !strings.Contains(r.Reason, "2 of 2 instances") {
		t.Errorf("beyond the limit: %+v", r)
	}
	if r := w.launch("abcdefghjp", plain(), "no such template"); r.Phase != lifecycle.Rejected || r.Reason != "no such template" {
		t.Errorf("refused by the store: %+v", r)
	}
	if r := w.launch("abcdefghjq", requested(), ""); r.Phase != lifecycle.Requested {
		t.Errorf("a request: %+v", r)
	}
	for _, id := range []string{"abcdefghjk", "abcdefghjn", "x"} {
		if _, _, _, err := (&lifecycle.Machine{}).Step(w.d, lifecycle.Command{Event: lifecycle.Launch{ID: id}}, epoch); err == nil {
			t.Errorf("%s was launched twice", id)
		}
	}
}

// TestLaunchMember claims one chosen member.
func TestLaunchMember(t *testing.T) {
	w := newWorld(t)
	limited := with(func(t *template.Template) {
		t.Name, t.PerOwner, t.Pool = "sandbox/pool", 1, &template.PoolSize{Size: 3, WhenEmpty: "refuse"}
	})
	w.fill(limited)
	w.runAll(good)
	members := w.all(lifecycle.Available)
	if r := w.launch(members[1], limited, ""); r.Phase != lifecycle.Ready || r.Run != nil || r.ClaimedAt.IsZero() || r.ExpiresAt.IsZero() {
		t.Errorf("claimed: %+v", r)
	}
	if r := w.launch(members[0], limited, ""); r.Phase != lifecycle.Destroying || !strings.Contains(r.Reason, "1 of 1 instances") || r.Owner.ID != "" {
		t.Errorf("claimed beyond the limit: %+v", r)
	}
	if r := w.launch("abcdefghjk", limited, ""); r.Phase != lifecycle.Rejected {
		t.Errorf("made beside the pool: %+v", r)
	}
	w.fill(limited)
	if n := len(w.all(lifecycle.Provisioning)); n != 2 {
		t.Errorf("%d members are made for those that went", n)
	}
}
