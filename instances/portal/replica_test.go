// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
)

// replica is a server behind a [portal.Forward].
type replica struct {
	*httptest.Server
	asked atomic.Int64 // requests that reached the server, with any outcome

	mu      sync.Mutex // guards the fields below
	address string     // of the leader, as far as it knows
	here    bool
	seen    []*http.Request // requests that its own API answered
	bodies  []string
	answer  http.HandlerFunc // of its own API; nil: 200
	known   bool             // it has a copy of the document
}

func (p *replica) leads(address string, here bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address, p.here = address, here
}

func (p *replica) took() ([]*http.Request, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, p.bodies
}

func (p *replica) own(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	p.mu.Lock()
	p.seen, p.bodies = append(p.seen, r), append(p.bodies, string(b))
	answer := p.answer
	p.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case answer != nil:
		answer(w, r)
	default:
		w.Header().Set("X-Own", "yes")
		w.WriteHeader(http.StatusCreated)
	}
}

var asOf = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

// newReplica starts a replica; change may change its options.
func newReplica(t *testing.T, change func(*portal.ForwardOptions)) *replica {
	t.Helper()
	keys := must.Get(keyring.New([]keyring.Key{{Secret: make([]byte, 32)}}))(t)
	guard := must.Get(access.New(access.Options{Keyring: keys, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}}))(t)
	p := &replica{}
	o := portal.ForwardOptions{
		Kit: service.New(service.Options{Guard: guard}), Own: http.HandlerFunc(p.own), Transport: http.DefaultTransport,
		Leader: func(context.Context) (string, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.address, p.here
		},
		View: func(context.Context) (lifecycle.View, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.known {
				return lifecycle.View{}, lifecycle.ErrNoLeader
			}
			return lifecycle.View{Document: &lifecycle.Document{}, AsOf: asOf}, nil
		},
	}
	if change != nil {
		change(&o)
	}
	f := portal.NewForward(o)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// ask makes a request; headers are pairs.
func ask(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(client.Do(r))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

// gone returns an address at which no server listens.
func gone(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return "http://" + l.Addr().String()
}

// asksFor makes launches of lab/vpc need approval.
func asksFor(t *testing.T, s *portaltest.Server, approval string) {
	t.Helper()
	s.Catalog.Change("lab/vpc", func(e *template.Entry) {
		changed := *e.Template
		changed.Approval = approval
		digest := must.Get(changed.Digest())(t)
		e.Template, e.Digest = &changed, digest
	})
}

// TestApproverSees shows an approver all that an approval covers, and the output of the tool;
// secrets stay hidden, and outputs are for the owner only.
//
// Shows: platform 9
func TestApproverSees(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	asksFor(t, s, "request")
	instance := create(t, s, all["anna"], `{"template":"lab/vpc","parameters":{"secret":"hunter2","size":"small"},"reason":"a course"}`, 202)
	path := "instances/" + instance.ID
	see := func(who string) api.Instance {
		t.Helper()
		var seen api.Instance
		s.Want(t, 200, &seen, all[who], "GET", path, "")
		return seen
	}
	approve := func() {
		t.Helper()
		s.Want(t, 200, nil, all["approver"], "POST", path+"/approve", `{"plan":"`+see("approver").Plan+`"}`)
	}
	text := func(v string) json.RawMessage { return json.RawMessage(v) }
	p := see("approver").Pending
	if p == nil || p.What != api.PendingLaunch || p.By.Subject != "anna" || p.Reason != "a course" || p.Was != nil || p.Source.Digest != "sha256:1" || time.Duration(p.TTL) != 8*time.Hour {
		t.Fatalf("launch: %+v", p)
	}
	if diff := cmp.Diff([]api.ValueChange{{Name: "secret", New: text(`"(sensitive)"`), Changed: true}, {Name: "size", New: text(`"small"`), Changed: true}}, p.Values); diff != "" {
		t.Errorf("values:\n%s", diff)
	}
	if see("reader").Pending != nil {
		t.Error("a reader sees what is asked for")
	}
	approve()
	s.Store.Finish(t, instance.ID, done())

	s.Want(t, 202, nil, all["anna"], "POST", path+"/update", `{"parameters":{"size":"large"},"version":"1.1.0","reason":"more load"}`)
	seen := see("approver")
	p = seen.Pending
	if seen.Phase != "ready" || p == nil || p.What != api.PendingUpdate || p.Reason != "more load" || p.Was.Version != "1.0.0" || p.Source.Version != "1.1.0" || p.Source.Digest != "sha256:2" || seen.Outputs != nil {
		t.Fatalf("update: %s %+v", seen.Phase, p)
	}
	want := []api.ValueChange{{Name: "secret", Old: text(`"(sensitive)"`), New: text(`"(sensitive)"`)}, {Name: "size", Old: text(`"small"`), New: text(`"large"`), Changed: true}}
	if diff := cmp.Diff(want, p.Values); diff != "" {
		t.Errorf("values:\n%s", diff)
	}
	var list api.Instances
	s.Want(t, 200, &list, all["approver"], "GET", "instances?phase=approval", "")
	if list.Count != 1 || list.Instances[0].Pending.By.Subject != "anna" || cmp.Diff(want[1:], list.Instances[0].Pending.Values) != "" || !slices.Equal(list.Instances[0].Actions, []string{"approve", "reject"}) {
		t.Errorf("%+v", list)
	}
	s.Want(t, 422, nil, all["anna"], "POST", path+"/extend", `{"reason":"line\tline"}`)
	approve()
	s.Results.Append("the tool said this")
	s.Want(t, 200, nil, all["approver"], "GET", path+"/runs/2/log", "")
	s.Store.Finish(t, instance.ID, done())

	s.Want(t, 202, nil, all["anna"], "POST", path+"/extend", `{"reason":"the course is longer"}`)
	if p = see("approver").Pending; p.What != api.PendingExtend || p.Until.Sub(p.Ends) != 2*time.Hour || p.Reason != "the course is longer" {
		t.Errorf("extend: %+v", p)
	}
	approve()
	if i := see("anna"); i.Extends != 1 || i.Pending != nil || i.Plan != "" {
		t.Errorf("extended: %+v", i)
	}
	var run api.Run
	s.Want(t, 200, &run, all["approver"], "GET", path+"/runs/2", "")
	if run.By.Subject != "anna" || run.Approved.Subject != "approver" || run.Reason != "more load" {
		t.Errorf("run: %+v", run)
	}
}

// TestApproverSeesThePlan shows the new values of an update whose plan waits, not the old
// ones.
//
// Shows: platform 9
func TestApproverSeesThePlan(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	asksFor(t, s, "plan")
	instance := create(t, s, all["anna"], `{"template":"lab/vpc"}`, 201)
	path := "instances/" + instance.ID
	for n, body := range []string{"", `{"parameters":{"size":"large"}}`} {
		if body != "" {
			s.Want(t, 200, nil, all["anna"], "POST", path+"/update", body)
		}
		s.Store.Finish(t, instance.ID, lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:plan", Counts: &lifecycle.Counts{Add: 1}, Resources: -1})
		var seen api.Instance
		s.Want(t, 200, &seen, all["approver"], "GET", path, "")
		p := seen.Pending
		if p == nil || p.What != api.PendingPlan || p.Run != n+1 || p.By.Subject != "anna" {
			t.Fatalf("%+v", p)
		}
		if n == 1 && (len(p.Values) != 2 || string(p.Values[1].New) != `"large"` || !p.Values[1].Changed) {
			t.Errorf("values %+v", p.Values)
		}
		s.Want(t, 200, nil, all["approver"], "POST", path+"/approve", `{"plan":"sha256:plan"}`)
		s.Store.Finish(t, instance.ID, done())
	}
}
