// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestStateReplicas: how far replicas are behind; unreadable ones are not revealed.
func TestStateReplicas(t *testing.T) {
	s := newStateSite(t)
	s.put(t, "shop", "default", shopState(1, "a"), shopState(2, "b"))
	replicate := func(name string) {
		t.Helper()
		must.Get(s.store(t, "shop").Replicas().Replicate(t.Context(), s.store(t, name), "default"))(t)
	}
	replicate("far")
	s.put(t, "shop", "default", shopState(3, "c"), shopState(4, "d"))
	replicate("near")
	says := func(caller, path string, want map[string]bool) {
		t.Helper()
		resp, body := s.ask(t, caller, http.MethodGet, path, nil)
		for text, there := range want {
			if resp.StatusCode != http.StatusOK || strings.Contains(body, text) != there {
				t.Errorf("%s as %s: status %d, %q is there: %v\n%s", path, caller, resp.StatusCode, text, !there, body)
			}
		}
	}
	says(admin, "states/shop/default/history", map[string]bool{
		`href="./../../../states/far/default">far</a></th><td class="num">2</td><td><span class="mark warn">2 versions behind</span>`: true,
		`href="./../../../states/near/default">near</a></th><td class="num">4</td><td><span class="mark good">up to date</span>`:      true,
		"newest in far": true, "newest in near": true, "Looking for replicas": false,
		"okara state replicate okara.example.com/acme/state/shop okara.example.com/acme/state/far -w default":  true,
		"okara state replicate okara.example.com/acme/state/shop okara.example.com/acme/state/near -w default": false,
	})
	says(admin, "states/far/default", map[string]bool{"read-only copy of": true, "It is <strong>2 versions behind</strong>": true, `href="./../../states/shop/default"`: true})
	says(admin, "states/near/default", map[string]bool{"It is <strong>up to date</strong>": true, "is not known here": false})
	says(reader, "states/shop/default/history", map[string]bool{"far": false, "near": false, "Replicas": false})
	s.count.Take()
	says(admin, "states/shop/default/history", map[string]bool{"2 versions behind": true})
	if n := s.count.Total(); n != 0 {
		t.Errorf("the page asks %d times again", n)
	}
}

// TestStateReplicaElsewhere shows the command for an original out of reach.
func TestStateReplicaElsewhere(t *testing.T) {
	s, other := newStateSite(t), newStateSite(t)
	other.put(t, "shop", "default", shopState(1, "a"))
	must.Get(other.store(t, "shop").Replicas().Replicate(t.Context(), s.store(t, "shop"), "default"))(t)
	s.put(t, "secret", "default", shopState(1, "a"))
	must.Get(s.store(t, "secret").Replicas().Replicate(t.Context(), s.store(t, "other"), "default"))(t)
	for caller, path := range map[string]string{admin: "states/shop/default", wrong: "states/other/default"} {
		if _, body := s.ask(t, caller, http.MethodGet, path, nil); !strings.Contains(body, "How far it lags behind is not known here") || strings.Contains(body, "<strong>up to date") {
			t.Errorf("%s as %s:\n%s", path, caller, body)
		}
	}
}
