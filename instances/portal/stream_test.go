// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// frame is one event of a stream.
type frame struct{ id, event, data string }

// streamOf opens a stream and returns its frames.
func streamOf(t *testing.T, s *portaltest.Server, token, path, last string) (<-chan frame, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/"+path, nil))(t)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get(s.Client().Do(r))(t)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %s %v", path, resp.Status, resp.Header)
	}
	frames := make(chan frame)
	go func() {
		defer close(frames)
		defer resp.Body.Close()
		var f frame
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "":
				if f.data != "" {
					select {
					case frames <- f:
					case <-ctx.Done():
						return
					}
				}
				f = frame{}
			case "id":
				f.id = value
			case "event":
				f.event = value
			case "data":
				f.data = value
			}
		}
	}()
	t.Cleanup(cancel)
	return frames, cancel
}

// TestLogStream follows a log across a broken connection, and ends with the run.
func TestLogStream(t *testing.T) {
	s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) { o.Streams.Heartbeat = time.Millisecond })
	anna := s.Issuer.Token(t, "anna", "use")
	id := create(t, s, anna, `{"template":"lab/vpc"}`, 201).ID
	s.Store.Start(t, id)
	path := "instances/" + id + "/runs/1/log"
	s.Results.Append("first\nä")
	frames, stop := streamOf(t, s, anna, path, "")
	got, last := "", ""
	read := func(frames <-chan frame, until string) {
		for got != until {
			f, ok := <-frames
			text := ""
			if !ok || f.event != "" || json.Unmarshal([]byte(f.data), &text) != nil {
				t.Fatalf("%+v, %t after %q", f, ok, got)
			}
			got, last = got+text, f.id
		}
	}
	read(frames, "first\nä")
	must.Equal(t, "id", last, fmt.Sprint("1-", len(got)))
	stop() // the connection breaks
	s.Results.Append("\ndata: x\r\n\nsecond\n")
	frames, _ = streamOf(t, s, anna, path, last)
	read(frames, "first\nä\ndata: x\r\n\nsecond\n")
	s.Store.Finish(t, id, done())
	if f := <-frames; f.event != "end" || !strings.Contains(f.data, "done") {
		t.Errorf("%+v", f)
	}
	if f, more := <-frames; more {
		t.Errorf("after the end: %+v", f)
	}
	if status, _, body := s.Ask(t, anna, "GET", path, ""); status != 200 || string(body) != got {
		t.Errorf("as text: %d %q", status, body)
	}
	for _, bad := range []string{"x", "7", "-1", "0-7", "1-+7", "1-99999999999999999999", "1-100000000000"} {
		s.Want(t, 400, nil, anna, "GET", path, "", "Accept", "text/event-stream", "Last-Event-ID", bad)
	}
}

// TestLogStreamOverAttempts resumes in another attempt's log, from its start.
func TestLogStreamOverAttempts(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	anna := s.Issuer.Token(t, "anna", "use")
	id := create(t, s, anna, `{"template":"lab/vpc"}`, 201).ID
	s.Store.Start(t, id)
	path := "instances/" + id + "/runs/1/log"
	s.Results.Append("what the first one said\n")
	frames, stop := streamOf(t, s, anna, path, "")
	f := <-frames
	stop()
	s.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Lost, Resources: -1, Error: "the host died"})
	s.Store.Advance(time.Hour)
	if ref := s.Store.Start(t, id); ref.Attempt != 2 {
		t.Fatalf("attempt %d", ref.Attempt)
	}
	s.Results.Begin()
	s.Results.Append("what the second one says\n")
	frames, _ = streamOf(t, s, anna, path, f.id)
	for _, want := range []frame{{"2-0", "attempt", "2"}, {"2-25", "", `"what the second one says\n"`}} {
		if f, ok := <-frames; !ok || f != want {
			t.Errorf("%+v, %t, want %+v", f, ok, want)
		}
	}
}

// TestStreamsBounded allows four streams for each caller.
//
// Shows: platform-attacks 14
func TestStreamsBounded(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	for range 4 {
		streamOf(t, s, all["anna"], "events", "")
	}
	s.Want(t, 503, nil, all["anna"], "GET", "events", "")
	streamOf(t, s, all["ben"], "events", "")
}

// TestStreamsEndWithServer, and nothing else.
func TestStreamsEndWithServer(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	frames, _ := streamOf(t, s, all["anna"], "events", "")
	s.Kit.Close()
	for f := range frames {
		t.Logf("%+v", f)
	}
	s.Want(t, 200, nil, all["anna"], "GET", "instances", "")
}

// TestEvents sends each caller the events of the instances that the caller may see.
func TestEvents(t *testing.T) {
	s := portaltest.NewServer(t, nil)
	all := tokens(t, s)
	ben, _ := streamOf(t, s, all["ben"], "events", "")
	reader, stop := streamOf(t, s, all["reader"], "events", "")
	id := create(t, s, all["anna"], `{"template":"lab/vpc"}`, 201).ID
	mine := create(t, s, all["ben"], `{"template":"lab/vpc"}`, 201).ID
	next := func(frames <-chan frame) (api.Event, string) {
		f := <-frames
		var e api.Event
		if err := json.Unmarshal([]byte(f.data), &e); err != nil || f.event != "instance" {
			t.Fatalf("%+v: %v", f, err)
		}
		return e, f.id
	}
	if e, _ := next(ben); e.Instance != mine || e.Action != "created" {
		t.Errorf("ben hears %+v", e)
	}
	seen := map[string]bool{}
	last := ""
	for range 2 {
		var e api.Event
		e, last = next(reader)
		seen[e.Instance] = true
		if e.Detail != "" {
			t.Errorf("a reader hears details: %+v", e)
		}
	}
	if !seen[id] || !seen[mine] {
		t.Errorf("the reader hears of %v", seen)
	}
	stop()
	s.Store.Advance(time.Minute)
	s.Want(t, 200, nil, all["anna"], "POST", "instances/"+id+"/protect", "")
	reader, _ = streamOf(t, s, all["reader"], "events", last) // resumes where it stopped
	e, _ := next(reader)
	if e.Instance != id || e.Action != "protected" || e.Actor == "" {
		t.Errorf("the reader hears %+v", e)
	}
	s.Store.Advance(time.Minute)
	s.Store.Finish(t, id, done())
	if e, _ = next(reader); e.Instance != id || e.Action != "ready" || e.Phase != "ready" {
		t.Errorf("the reader hears %+v", e)
	}
}
