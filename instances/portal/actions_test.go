// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestActions compares listed actions with those that succeed.
func TestActions(t *testing.T) {
	bodies := map[string]string{"reject": `{"reason":"no"}`, "orphan": `{"reason":"no"}`, "transfer": `{"to":"user:anna"}`, "rename": `{"name":"x"}`}
	verbs := []string{"approve", "reject", "extend", "retry", "cancel", "update", "rename", "protect", "unprotect", "transfer", "take", "decline", "destroy", "orphan"}
	for _, c := range []struct {
		template, phase string
		do              func(*portaltest.Server, string)
	}{
		{"lab/vpc", "provisioning", func(*portaltest.Server, string) {}},
		{"lab/vpc", "ready", func(s *portaltest.Server, id string) { s.Store.Finish(t, id, done()) }},
		{"lab/asked", "requested", func(*portaltest.Server, string) {}},
	} {
		for _, who := range []string{"anna", "ben", "reader", "approver", "admin"} {
			t.Run(c.phase+" "+who, func(t *testing.T) {
				for _, verb := range verbs {
					s := portaltest.NewServer(t, nil) // each verb changes something
					all := tokens(t, s)
					_, _, b := s.Ask(t, all["anna"], "POST", "instances", `{"template":"`+c.template+`"}`)
					var instance api.Instance
					must.Succeed(t, json.Unmarshal(b, &instance))
					c.do(s, instance.ID)
					instance = api.Instance{ID: instance.ID}
					if status, _, b := s.Ask(t, all[who], "GET", "instances/"+instance.ID, ""); status == http.StatusOK {
						must.Succeed(t, json.Unmarshal(b, &instance))
					}
					method, path, body := "POST", "instances/"+instance.ID+"/"+verb, bodies[verb]
					switch verb {
					case "destroy":
						method, path = "DELETE", "instances/"+instance.ID
					case "rename":
						path = "instances/" + instance.ID + "/update"
					case "approve":
						body = `{"plan":"` + instance.Plan + `"}`
					}
					before := s.Store.Record(t, instance.ID)
					status, _, answer := s.Ask(t, all[who], method, path, body)
					offered := slices.Contains(instance.Actions, verb)
					// What is unprotected may be unprotected again, but that is not listed.
					if may := status < 300 && (verb != "unprotect" || before.Protected != ""); may != offered {
						t.Errorf("%s: it says %t and answers %d %s", verb, offered, status, answer)
					}
				}
			})
		}
	}
}

// TestQueuePosition in the queue, and in the log's stream.
func TestQueuePosition(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	var ids []string
	for range 3 {
		ids = append(ids, create(t, s, all["anna"], `{"template":"lab/vpc"}`, 201).ID)
		s.Store.Advance(time.Minute)
	}
	positions := map[int]bool{}
	for _, id := range ids {
		var instance api.Instance
		s.Want(t, 200, &instance, all["anna"], "GET", "instances/"+id, "")
		positions[instance.Run.Position] = true
	}
	if !positions[1] || !positions[2] || !positions[3] {
		t.Errorf("places %v", positions)
	}
	frames, _ := streamOf(t, s, all["anna"], "instances/"+ids[0]+"/runs/1/log", "")
	if f := <-frames; f.event != "wait" || !strings.Contains(f.data, `"place":`) || !strings.Contains(f.data, "Queued") {
		t.Errorf("%+v", f)
	}
	s.Store.Start(t, ids[0])
	if f := <-frames; f.event != "wait" && f.event != "attempt" || f.event == "wait" && strings.Contains(f.data, "Queued") {
		t.Errorf("%+v", f)
	}
}

// TestStreamAsksAgain ends the stream of a caller that may no longer read the log.
func TestStreamAsksAgain(t *testing.T) {
	s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) { o.Streams.Again = time.Millisecond })
	all := tokens(t, s)
	id := create(t, s, all["anna"], `{"template":"lab/vpc"}`, 201).ID
	s.Store.Start(t, id)
	s.Results.Append("first\n")
	frames, _ := streamOf(t, s, all["anna"], "instances/"+id+"/runs/1/log", "")
	if f := <-frames; !strings.Contains(f.data, "first") {
		t.Fatalf("%+v", f)
	}
	must.Succeed(t, s.Kit.Guard.Replace(access.Policy{}))
	for f := range frames { // it has to end
		t.Logf("%+v", f)
	}
}
