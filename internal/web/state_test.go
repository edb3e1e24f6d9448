// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// statePages has one of each kind of page of a state.
var statePages = []string{
	"states", "states/shop", "states/shop/default", "states/shop/locked", "states/shop/sealed", "states/shop/default/history", "states/shop/default/diff",
	"states/shop/default/1", "states/shop/default/2/resources", "states/shop/default/2/resources?address=aws_db_instance.main",
	"states/shop/default/2/reveal?address=aws_db_instance.main&path=password", "states/shop/default/diff?from=2&to=1", "states/shop/sealed/1/resources",
}

// TestStatePages checks the texts of each page.
func TestStatePages(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	for _, c := range []struct {
		path, has, not string
		status         int
	}{
		{"states", `href="./states/shop"`, "of-others", 200},
		{"states", "mallory", "", 200},
		{"states/shop", `href="./../states/shop/default"`, "", 200},
		{"states/none", "state none not found", "", 404},
		{"states/shop/none", "state shop, workspace none not found", "", 404},
		{"states/shop/default", "https://shop.example.com", plantedOutput, 200},
		{"states/shop/default", "masked", "", 200},
		{"states/shop/default", "<code>aws_route53_record</code></a><span>120</span>", "", 200},
		{"states/shop/default", "okara state push okara.example.com/acme/state/shop terraform.tfstate -w default", "", 200},
		{"states/shop/default/1", "10.0.1.0/24", "", 200},
		{"states/shop/default/1", "okara state restore okara.example.com/acme/state/shop 1 -w default", "state push", 200},
		{"states/shop/default/01", "has no version 01", "", 404},
		{"states/shop/default/3", "has no version 3", "", 404},
		{"states/shop/default/x", "has no version x", "", 404},
		{"states/shop/default/2/resources", "122 resources", "", 200},
		{"states/shop/default/2/resources", "aws_db_instance.main", "data.aws_region.here", 200}, // on the second page
		{"states/shop/default/2/resources?page=2", "data.aws_region.here", "aws_db_instance.main", 200},
		{"states/shop/default/2/resources?q=region", "1 resource with", "aws_db_instance", 200},
		{"states/shop/default/2/resources?q=%3Cscript", "No address contains this", "<script>", 200},
		{"states/shop/default/2/resources?address=aws_db_instance.main", "db.large", plantedName, 200},
		{"states/shop/default/2/resources?address=aws_db_instance.main", "The value continues", plantedMark, 200},
		{"states/shop/default/2/resources?address=aws_db_instance.main", "&lt;script&gt;", "\u202e", 200},
		{"states/shop/default/2/resources?address=aws_db_instance.main", "tags.team", "<script>alert", 200},
		{"states/shop/default/2/resources?address=none.none", "has no resource none.none", "", 404},
		{"states/shop/default/2/reveal?address=none.none&path=x", "no such value", "", 404},
		{"states/shop/default/history", "alice@build-7", "taken over", 200},
		{"states/shop/default/history?before=2", "Newer", `/2">`, 200},
		{"states/shop/default/diff?from=1&to=2", "db.small", plantedName, 200},
		{"states/shop/default/diff?from=1&to=2", "output.subnets", plantedMark, 200},
		{"states/shop/default/diff?from=2&to=2", "Choose two versions", "", 200},
		{"states/shop/default/diff?from=7&to=2", "has no version 7", "", 404},
		{"states/shop/sealed", "OpenTofu encrypted this state", "AAAA", 200},
		{"states/shop/sealed/1/resources", "OpenTofu encrypted this state", "", 200},
		{"states/shop/locked", "Locked by mallory", "\x1b", 200},
		{"states/shop/locked", "3 hours ago", "\u202e", 200},
	} {
		t.Run(c.path, func(t *testing.T) {
			resp, body := s.ask(t, admin, http.MethodGet, c.path, nil)
			if resp.StatusCode != c.status || !strings.Contains(body, c.has) || c.not != "" && strings.Contains(body, c.not) {
				t.Errorf("status %d, want %d; %q is in it: %v, %q: %v\n%s", resp.StatusCode, c.status, c.has, strings.Contains(body, c.has), c.not, strings.Contains(body, c.not), body)
			}
		})
	}
}

// TestStatePartly shows only one workspace to a caller that may read only that: in lists,
// in their counts, and by its address.
//
// Shows: pages 4
func TestStatePartly(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	for path, want := range map[string]int{
		"states": 200, "states/shop": 200, "states/shop/default": 200, "states/shop/default/history": 200, "states/shop/default/2/resources": 200,
		"states/shop/locked": 403, "states/shop/sealed": 403, "states/shop/none": 404,
		"states/other": 404, "states/other/default": 403, "states/nowhere": 404,
	} {
		resp, body := s.ask(t, partly, http.MethodGet, path, nil)
		must.Equal(t, path+": status", resp.StatusCode, want)
		for _, hidden := range []string{"mallory", "sealed", ">other<", "of-others"} {
			if strings.Contains(body, hidden) && !strings.Contains(path, hidden) {
				t.Errorf("%s tells of %s:\n%s", path, hidden, body)
			}
		}
	}
	for path, want := range map[string]string{"states": "1 state that", "states/shop": "1 workspace<"} {
		if _, body := s.ask(t, partly, http.MethodGet, path, nil); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q:\n%s", path, want, body)
		}
	}
}

// TestShowSensitiveState shows one value to a reader, by the page's form.
func TestShowSensitiveState(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	const path = "states/shop/default/2/reveal"
	form := func() url.Values {
		_, body := s.ask(t, reader, http.MethodGet, path+"?address=aws_db_instance.main&path=password", nil)
		return url.Values{"key": {formKey(t, body)}, "address": {"aws_db_instance.main"}, "path": {"password"}}
	}
	for _, caller := range []string{nobody, publisher, wrong} {
		if resp, body := s.ask(t, caller, http.MethodPost, path, form()); resp.StatusCode != 303 && resp.StatusCode != 403 || strings.Contains(body, plantedName) {
			t.Errorf("%q: status %d", caller, resp.StatusCode)
		}
	}
	s.audit.Reset()
	resp, body := s.ask(t, reader, http.MethodPost, path, form())
	if resp.StatusCode != 200 || !strings.Contains(body, plantedName) || strings.Contains(body, plantedMark) {
		t.Errorf("status %d:\n%s", resp.StatusCode, body)
	}
	must.Equal(t, "Cache-Control", resp.Header.Get("Cache-Control"), "no-store")
	audit := s.audit.String()
	if !strings.Contains(audit, `"msg":"change"`) || !strings.Contains(audit, `"action":"reveal"`) || !strings.Contains(audit, `"address":"shop/default"`) || !strings.Contains(audit, `"detail":"aws_db_instance.main password"`) || strings.Contains(audit, "PLANTED") {
		t.Errorf("the record is %s", audit)
	}
	without := form()
	without.Del("key")
	if resp, body := s.ask(t, reader, http.MethodPost, path, without); resp.StatusCode != 400 || strings.Contains(body, plantedName) {
		t.Errorf("without a key: status %d", resp.StatusCode)
	}
}

// TestUnlockLine checks the command that users paste into a shell.
//
// Shows: pages 8
func TestUnlockLine(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	_, body := s.ask(t, reader, http.MethodGet, "states/shop/locked", nil)
	if want := "okara state unlock okara.example.com/acme/state/shop -w locked --id " + format.ShownID(hostileID); !strings.Contains(body, want) {
		t.Errorf("no %q in\n%s", want, body)
	}
	for _, bad := range []string{"touch", "$("} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
}

// TestTakenOver shows the mark of a takeover where the numbers jump.
func TestTakenOver(t *testing.T) {
	s := newStateSite(t)
	s.put(t, "shop", "default", shopState(1, "a"))
	store := s.store(t, "shop")
	info := statebackendInfo("one")
	must.Get(store.Lock(t.Context(), "default", info))(t)
	l := must.Get(store.TakeOver(t.Context(), "default", statebackendInfo("two")))(t)
	must.Succeed(t, l.Unlock(t.Context()))
	if _, body := s.ask(t, admin, http.MethodGet, "states/shop/default/history", nil); !strings.Contains(body, "taken over") || !strings.Contains(body, "takeover, content of 1") {
		t.Errorf("no takeover in\n%s", body)
	}
}

func statebackendInfo(id string) format.LockInfo {
	return format.LockInfo{ID: id, Operation: "OperationTypeApply", Who: "alice", Created: time.Now()}
}

// TestStateRequests counts the requests of a page to the registry.
//
// Shows: pages 11
func TestStateRequests(t *testing.T) {
	s := newStateSite(t)
	s.shop(t)
	count := func(path string) (total int) {
		t.Helper()
		if resp, _ := s.ask(t, admin, http.MethodGet, path, nil); resp.StatusCode != 200 {
			t.Fatalf("%s: status %d", path, resp.StatusCode)
		}
		for request, n := range s.count.Take() {
			if method, _, _ := strings.Cut(request, " "); method != http.MethodGet && method != http.MethodHead {
				t.Errorf("%s did %s", path, request)
			}
			total += n
		}
		return total
	}
	if n := count("states/shop/default"); n > 3 {
		t.Errorf("a workspace costs %d requests: its tag list, a manifest and a blob", n)
	}
	if n := count("states/shop/default/2/resources"); n != 0 {
		t.Errorf("its resources cost %d more", n)
	}
	if _, whole := s.states.Marked(t.Context()); !whole { // in the background of the page of a history
		t.Fatal("not all states were looked at")
	}
	s.count.Take()
	must.Equal(t, "a history of two versions, of which one is known, costs", count("states/shop/default/history"), 1)
	for _, path := range statePages {
		count(path)
		if n := count(path); n != 0 {
			t.Errorf("%s costs %d requests again", path, n)
		}
	}
}

// TestStateEntries finds a state by the entry that the server wrote when it stored it.
func TestStateEntries(t *testing.T) {
	s := newStateSite(t)
	s.put(t, "mine", "default", shopState(1, "a"))
	queue := must.Get(s.client.Repo(s.layout.QueueRepo()))(t)
	for _, e := range []artifact.CatalogEntry{
		{Kind: addr.KindState, Address: "mine", Repository: "acme/state/mine"},
		{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: "acme/modules/net/vpc/aws"}, // not a state
	} {
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), queue, e))
	}
	_, body := s.ask(t, admin, http.MethodGet, "states", nil)
	if !strings.Contains(body, `href="./states/mine"`) || strings.Contains(body, "vpc") {
		t.Errorf("the list is\n%s", body)
	}
}

// TestNoStates checks that the empty list says what to do.
func TestNoStates(t *testing.T) {
	s := newStateSite(t, rights.AnonymousRead()...)
	if _, body := s.ask(t, publisher, http.MethodGet, "states", nil); !strings.Contains(body, "read:state:NAME") {
		t.Errorf("who has no right is told\n%s", body)
	}
}

// TestParts: parts switched off answer 404, without a menu.
func TestParts(t *testing.T) {
	all := map[string]string{"states": "states", "catalog": "search?q=x", "doctor": "doctor", "audit": "audit"}
	for part, path := range all {
		s := newStateSiteWithout(t, web.Parts{States: part == "states", Catalog: part == "catalog", Doctor: part == "doctor", Audit: part == "audit"})
		s.put(t, "shop", "default", shopState(1, "a"))
		for other, at := range all {
			want := http.StatusOK
			if other == part {
				want = http.StatusNotFound
			}
			if resp, _ := s.ask(t, admin, http.MethodGet, at, nil); resp.StatusCode != want {
				t.Errorf("without %s, %s is %d", part, at, resp.StatusCode)
			}
		}
		resp, body := s.ask(t, admin, http.MethodGet, "", nil)
		if resp.StatusCode != http.StatusOK || strings.Contains(body, `href="./`+path) || part == "catalog" && strings.Contains(body, `name="q"`) {
			t.Errorf("without %s, its pages are linked:\n%s", part, body)
		}
	}
}
