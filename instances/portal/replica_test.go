// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
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
