// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestDoctorVerdicts shows verdicts by repository, or by host name.
func TestDoctorVerdicts(t *testing.T) {
	layout := addr.Layout{Prefix: "acme"}
	h := ocitest.Handler(t, ocitest.Quirks{})
	findings := func(host string, names ...string) map[string]web.Finding {
		t.Helper()
		c := must.Get(oci.New(host, oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}}))(t)
		states := must.Get(states.New(states.Options{Client: c, Layout: layout, Names: names}))(t)
		if _, whole := states.Marked(t.Context()); !whole {
			t.Fatal("not all were looked at")
		}
		all := map[string]web.Finding{}
		for _, f := range newDoctor(Options{States: states}, NewMetrics()).Findings(t.Context(), time.Now()) {
			all[f.About] = f
		}
		return all
	}
	check := func(f web.Finding, verdict web.Verdict, state string) {
		t.Helper()
		if f.Verdict != verdict || !strings.Contains(f.State, state) || f.Meaning == "" || verdict != web.Fine && f.Do == "" {
			t.Errorf("finding %+v, want %d with %q", f, verdict, state)
		}
	}
	check(findings("registry.test", "shop")["Locks of states"], web.Fine, "registry.test by its name: exact; no repository was examined")
	check(findings("hub.docker.io", "shop")["Locks of states"], web.Act, "refused; no repository was examined")
	check(findings(httpserve.OwnRegistry, "shop")["Locks of states"], web.Fine, "the registry of this server: exact")

	day := time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)
	client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}}))(t)
	for repository, v := range map[string]format.Verdict{
		"acme/state/shop": {Locking: "exact", Checked: day, Tool: "okara/1.2.3", Rounds: 200},
		"acme/state/bad":  {Locking: "refused", Reason: "the list is cached", Checked: day, Rounds: 200, Conflicts: 3},
		"acme/queue":      {Locking: "settle", Checked: day},
	} {
		r := must.Get(client.Repo(repository))(t)
		must.Succeed(t, statebackend.New(r, statebackend.Options{}).Verdicts().Record(t.Context(), v))
	}
	all := findings("registry.test", "shop", "bad", "other")
	if len(all) != 3 {
		t.Errorf("findings %+v", all)
	}
	check(all["Locks in acme/state/shop"], web.Fine, "exact, examined on 2026-11-20 by okara/1.2.3; 0 conflicts and 0 late lists in 200 rounds")
	check(all["Locks in acme/state/bad"], web.Act, "refused, examined on 2026-11-20 by an unknown tool; 3 conflicts")
	check(all["Locks in acme/queue"], web.Fine, "waits for the tag list to settle")
	if m := fmt.Sprint(all["Locks in acme/state/bad"].Meaning); !strings.Contains(m, "the list is cached") {
		t.Errorf("the reason is missing: %s", m)
	}
}
