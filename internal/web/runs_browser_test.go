// SPDX-License-Identifier: Apache-2.0

//go:build browser

package web_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserRun confirms a plan and reads its log, with and without script.
func TestBrowserRun(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		w := newWholeOf(t, "", map[string][]string{reader: {"read:state:shop", "run:state:shop"}})
		w.put(t, "shop", "default", shopState(1, "db.small"))
		at := w.runs(t, "shop", "default")
		w.start(t)
		p := b.Tab(t, w.URL+"/ui/"+at+"3", webtest.Look{Width: 1280, Theme: "light", Script: script})
		logIn(p, callerToken(reader))
		p.Wait("The plan is ready")
		p.To("Confirm and apply")
		p.Enter()
		p.Wait("being applied")
		id := strings.TrimSuffix(strings.Split(at, "/")[3], ".")
		w.api.Results.Begin()
		w.api.Store.Start(t, id)
		w.api.Results.Append("Plan: 1 to add, 0 to change, 0 to destroy.\naws_vpc.main: Creation complete after 1s\n")
		p.Wait("1 of 1 done")
		w.api.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done})
		p.Wait("applied")
		p.Wait("1 added, 0 changed, 0 destroyed")
	}
}
