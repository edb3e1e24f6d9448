// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// startLeader leads with the ledger of a registry until the returned function is called, and
// has written to it once.
func startLeader(t *testing.T, host string) (stop func()) {
	t.Helper()
	client := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(t)
	l := must.Get(ledger.New(ledger.Options{
		Repo: func(int) (*oci.Repo, error) { return client.Repo("acme/ledger") }, Machine: &lifecycle.Machine{}, InClear: true,
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	for !l.Status().Leading {
		select {
		case <-l.Changed():
		case <-time.After(5 * time.Minute):
			t.Fatal("nobody leads: ", l.Status().Refused)
		}
	}
	must.Get(l.Do(t.Context(), lifecycle.Command{Event: lifecycle.Pause{Template: "lab/vpc", Reason: "x"}}))(t)
	return stop
}

// TestInstanceLedger accepts a ledger in its present state, unless a leader uses it.
//
// Shows: platform 21
func TestInstanceLedger(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	c := newHome(t, nil)
	stop := startLeader(t, host)
	want := func(name string, code int, out, errOut string, args ...string) {
		t.Helper()
		gotCode, gotOut, gotErr := c.run(t, append([]string{"instance", "ledger"}, args...)...)
		if gotCode != code || !strings.Contains(gotOut, out) || !strings.Contains(gotErr, errOut) {
			t.Errorf("%s: %d %q %q, want %d %q %q", name, gotCode, gotOut, gotErr, code, out, errOut)
		}
	}
	repository := host + "/acme/ledger"
	want("not said", cli.ExitUsage, "", "--accept is needed", repository)
	want("not confirmed", cli.ExitUsage, "", "--yes", repository, "--accept")
	want("a server leads", cli.ExitConflict, "", "a leader uses it", repository, "--accept", "--yes")
	stop()
	want("accepted", cli.ExitOK, repository+" counts from serial 2 on, with 0 instances", "", repository, "--accept", "--yes")
	want("an empty one", cli.ExitOK, `"serial": 1`, "", host+"/other/ledger", "--accept", "--yes", "--json")
	want("nowhere", cli.ExitUsage, "", "", "--accept", "--yes")
	startLeader(t, host)() // the next leader continues with it
}

// TestInstanceClock accepts the clock, which only an admin may do.
//
// Shows: platform 21
func TestInstanceClock(t *testing.T) {
	h := newPortalUsers(t)
	for _, s := range []struct {
		name, who   string
		args        []string
		code        int
		out, errOut string
		before      func()
	}{
		{name: "not said", who: "admin-a", code: cli.ExitUsage, errOut: "--accept is needed"},
		{name: "by who may not", who: "use-anna", args: []string{"--accept"}, code: cli.ExitDenied},
		{name: "nothing waited", who: "admin-a", args: []string{"--accept"}, out: "the clock is accepted; nothing waited for it\n"},
		{
			name: "held", who: "admin-a", args: []string{"--accept"}, out: "the clock is accepted; expiry waited: they differ by an hour\n",
			before: func() { h.Store.Serve(t, lifecycle.ClockHeld{Reason: "they differ by an hour"}) },
		},
		{name: "as JSON", who: "admin-a", args: []string{"--accept", "--json"}, out: `"accepted": true`},
	} {
		if s.before != nil {
			s.before()
		}
		code, out, errOut := h.as(t, s.who, append([]string{"instance", "clock"}, s.args...)...)
		if code != s.code || !strings.Contains(out, s.out) || !strings.Contains(errOut, s.errOut) {
			t.Errorf("%s: %d %q %q, want %d %q %q", s.name, code, out, errOut, s.code, s.out, s.errOut)
		}
	}
}
