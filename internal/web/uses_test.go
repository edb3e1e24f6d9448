// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestUses: pages name the states that the caller may read, and no other.
func TestUses(t *testing.T) {
	s := newStateSite(t)
	d := depot.New(depot.Options{Client: s.client, Layout: s.layout})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		must.Get(d.PublishModule(t.Context(), fstest.MapFS{"main.tf": {}}, depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
	}
	must.GetBoth(d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.0.0"}))(t)
	for name, version := range map[string]string{"shop": "1.0.0", "other": "1.1.0"} {
		document := usage.Document{SchemaVersion: 1, Recorded: usage.Complete, Modules: []usage.Module{{Source: "okara.example.com/net/vpc/aws", Version: version}}}
		l := must.Get(s.store(t, name).Lock(t.Context(), "default", statebackend.NewLockInfo("apply", "1.10.0")))(t)
		must.Get(l.Put(statebackend.WithUsage(t.Context(), func([]byte, []byte) []byte { return document.Encode() }), []byte(shopState(1, "x"))))(t)
		must.Succeed(t, l.Unlock(t.Context()))
	}
	must.Succeed(t, s.states.Uses().Refresh(t.Context()))
	for _, tt := range []struct {
		caller, path string
		status       int
		has, lacks   []string
	}{
		{admin, "used-by?address=net/vpc/aws", http.StatusOK, []string{"shop, default", "other, default", `<meter min="0" max="2" value="1">`, "withdrawn", "newer: 1.1.0", "2 states that you may read"}, []string{"other states"}},
		{admin, "used-by?address=net/vpc/aws@1.1.0", http.StatusOK, []string{"other, default"}, []string{"shop, default"}},
		{reader, "used-by?address=net/vpc/aws", http.StatusOK, []string{"shop, default"}, []string{"other, default", "A few other"}},
		{publisher, "used-by?address=net/vpc/aws", http.StatusOK, []string{"No state that you may read", "A few other states or instances"}, []string{"shop", "other, "}},
		{nobody, "used-by?address=net/vpc/aws", http.StatusSeeOther, nil, []string{"shop"}}, {admin, "used-by?address=x@y", http.StatusBadRequest, nil, nil},
		{reader, "states/shop/default/made-of", http.StatusOK, []string{"okara.example.com/net/vpc/aws"}, []string{"withdrawn", "1.1.0"}}, // it may not read the module
		{admin, "states/shop/default/made-of", http.StatusOK, []string{"withdrawn", "newer: 1.1.0", "okara state uses ", "/state/shop -w default"}, nil}, {wrong, "states/shop/default/made-of", http.StatusForbidden, nil, []string{"net/vpc"}}, {admin, "states/shop/none/made-of", http.StatusOK, []string{"not recorded"}, nil},
		{reader, "states/shop/default", http.StatusOK, []string{"states/shop/default/made-of"}, nil}, {admin, "modules/net/vpc/aws/1.1.0", http.StatusOK, []string{"used-by?kind=module&amp;address=net%2Fvpc%2Faws%401.1.0"}, nil},
		{admin, "", http.StatusOK, []string{"In use, and withdrawn", "net/vpc/aws 1.0.0"}, nil}, {reader, "", http.StatusOK, nil, []string{"withdrawn"}},
	} {
		resp, body := s.ask(t, tt.caller, http.MethodGet, tt.path, nil)
		if resp.StatusCode != tt.status {
			t.Errorf("%s as %s: %s", tt.path, tt.caller, resp.Status)
		}
		_, body, _ = strings.Cut(body, "<main")
		for _, text := range tt.has {
			if !strings.Contains(body, text) {
				t.Errorf("%s as %s lacks %q:\n%s", tt.path, tt.caller, text, body)
			}
		}
		for _, text := range tt.lacks {
			if strings.Contains(body, text) {
				t.Errorf("%s as %s has %q:\n%s", tt.path, tt.caller, text, body)
			}
		}
	}
}
