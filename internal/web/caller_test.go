// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestCallers: a module lists its readable callers, without requests, bounded.
func TestCallers(t *testing.T) {
	s := newSiteOf(t, nil, access.Policy{Tokens: callers()})
	call := func(source string) map[string]string {
		return map[string]string{"main.tf": fmt.Sprintf("module \"x\" {\n  source = %q\n}\n", source)}
	}
	const vpc = "okara.example.com/open/vpc/aws"
	s.module(t, "open/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	s.module(t, "open/shop/aws", "1.0.0", call(vpc))
	s.module(t, "open/part/aws", "1.0.0", call(vpc+"//modules/subnet"))
	s.module(t, "shut/vault/aws", "1.0.0", call(vpc))
	s.module(t, "open/former/aws", "1.0.0", call(vpc))
	s.module(t, "open/former/aws", "1.1.0", map[string]string{"main.tf": ""})
	s.module(t, "open/longer/aws", "1.0.0", call(vpc+"x"))
	s.module(t, "open/elsewhere/aws", "1.0.0", call("registry.example.com/open/vpc/aws"))

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.finder.Run(ctx) }()
	defer func() { stop(); <-done }()
	const page = "/ui/modules/open/vpc/aws/1.0.0/dependencies"
	until := time.Now().Add(3 * time.Minute)
	for !s.known(t, 7) {
		if time.Now().After(until) {
			t.Fatal("the catalog was never read")
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	<-done

	s.as(t, "admin", page)
	s.count.Take()
	for caller, want := range map[string]map[string]bool{
		"reader": {"2 here call it": true, "open/shop": true, "open/part": true, "shut/vault": false, "open/former": false, "open/longer": false, "open/elsewhere": false},
		"admin":  {"3 here call it": true, "open/shop": true, "open/part": true, "shut/vault": true, "open/former": false, "open/longer": false, "open/elsewhere": false},
	} {
		status, body, _ := s.as(t, caller, page)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d", caller, status)
		}
		for text, has := range want {
			if strings.Contains(body, text) != has {
				t.Errorf("%s sees %q: %v, want %v\n%s", caller, text, !has, has, body)
			}
		}
	}
	if n := s.count.Take(); len(n) != 0 {
		t.Errorf("the warm page asks %v", n)
	}
	if _, body, _ := s.as(t, "reader", "/ui/modules/open/shop/aws/1.0.0/dependencies"); !strings.Contains(body, "No module that you may see calls this one") {
		t.Errorf("what nobody calls says\n%s", body)
	}
}

// known reports whether the index has read the newest version of n items.
func (s *site) known(t *testing.T, n int) bool {
	t.Helper()
	v, _ := must.GetBoth(s.finder.View(t.Context(), "", func(string, string) bool { return true }))(t)
	for e := range v.All {
		if !e.Read.IsZero() {
			n--
		}
	}
	return n <= 0
}
