// SPDX-License-Identifier: Apache-2.0

package portalclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// clientOf returns a client for a server with a token.
func clientOf(t *testing.T, server, token string) *portalclient.Client {
	t.Helper()
	u := must.Get(url.Parse(server))(t)
	return &portalclient.Client{Front: client.New(client.Options{
		Server: u, Pause: time.Millisecond, Token: func(context.Context) (string, error) { return token, nil },
	})}
}

// script is a server that gives prepared answers in order, and repeats the last one.
type script struct {
	*httptest.Server
	mu    sync.Mutex // guards asked
	asked []*http.Request
}

func newScript(t *testing.T, answers ...http.HandlerFunc) *script {
	t.Helper()
	s := &script{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n := len(s.asked)
		s.asked = append(s.asked, r)
		s.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *script) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// cut closes the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// streams sends frames, and then ends the response or breaks the connection.
func streams(whole bool, frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, f := range frames {
			_, _ = io.WriteString(w, f)
		}
		_ = http.NewResponseController(w).Flush()
		if !whole {
			panic(http.ErrAbortHandler)
		}
	}
}

func at(offset int, text string) string { return piece(1, offset, text) }

// at2 is like at, for the second attempt.
func at2(offset int, text string) string { return piece(2, offset, text) }

func piece(attempt, offset int, text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf("id: %d-%d\ndata: %s\n\n", attempt, offset, b)
}

const (
	id    = "abcdefgh23"
	token = "oks_anna_0123456789abcdefghij"
)

// TestKey repeats a change with the same key, and sends another one with another.
func TestKey(t *testing.T) {
	s := newScript(t, cut, says(503, "{}"), says(201, `{"id":"`+id+`"}`))
	c := clientOf(t, s.URL, token)
	for range 2 {
		if instance, status, err := c.Create(t.Context(), api.Create{Template: "lab/vpc"}); err != nil || status != 201 || instance.ID != id {
			t.Fatal(instance, status, err)
		}
	}
	var keys []string
	for _, r := range s.requests() {
		keys = append(keys, r.Header.Get(api.IdempotencyKey))
	}
	if len(keys) != 4 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] || keys[3] == keys[0] {
		t.Errorf("keys %q, want three times one, and then another", keys)
	}
	c.Key = "mine"
	must.Get(c.Destroy(t.Context(), id))(t)
	if last := s.requests()[4]; last.Header.Get(api.IdempotencyKey) != "mine" || last.Method != http.MethodDelete {
		t.Errorf("%s with the key %q", last.Method, last.Header.Get(api.IdempotencyKey))
	}
}

// TestListWithoutEnd stops reading from a server that always has another page.
//
// Shows: platform-attacks 18
func TestListWithoutEnd(t *testing.T) {
	empty := newScript(t, says(200, `{"instances":[],"templates":[],"next":"more"}`))
	c := clientOf(t, empty.URL, token)
	if all, err := c.Instances(t.Context(), portalclient.Filter{}); err != nil || len(all.Instances) > 0 {
		t.Error(all, err)
	}
	if all, err := c.All(t.Context()); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
	if all, err := c.Templates(t.Context()); err != nil || len(all) > 0 {
		t.Error(all, err)
	}
	must.Equal(t, "requests for three lists without an entry", len(empty.requests()), 3)
	page := `{"next":"more","count":9,"instances":[` + strings.Repeat(`{},`, 4999) + `{}]}`
	full := newScript(t, says(200, page))
	all, err := clientOf(t, full.URL, token).Instances(t.Context(), portalclient.Filter{Owner: "mine", Template: "lab/*", Phase: "live"})
	if err != nil || len(all.Instances) != 100_000 || all.Count != 9 {
		t.Errorf("%d of %d instances, %v", len(all.Instances), all.Count, err)
	}
	q := full.requests()[1].URL.Query()
	want := url.Values{"limit": {"500"}, "after": {"more"}, "owner": {"mine"}, "template": {"lab/*"}, "phase": {"live"}}
	must.Match(t, "query", q, want)
}

// TestNames sends no request for an invalid ID.
func TestNames(t *testing.T) {
	s := newScript(t, says(200, "{}"))
	c := clientOf(t, s.URL, token)
	for _, id := range []string{"", "../me", "a/b", "a?b", "A", "a%2fb", "é", strings.Repeat("a", 41)} {
		_, err := c.Instance(t.Context(), id)
		_, err2 := c.Verb(t.Context(), id, "extend", nil)
		_, err3 := c.Log(t.Context(), id, 1)
		_, err4 := c.Runs(t.Context(), id)
		_, err5 := c.Outputs(t.Context(), id)
		_, err6 := c.ShowSensitive(t.Context(), id, "x")
		for _, err := range []error{err, err2, err3, err4, err5, err6} {
			if !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if n := len(s.requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestFollow follows a log over breaks and another attempt.
func TestFollow(t *testing.T) {
	s := newScript(t,
		streams(false, at(6, "first\n"), "id: 1-12\ndata: \"seco"),
		streams(true, ": beat\n\n", at(13, "second\n")),
		cut,
		streams(true, "id: 2-0\nevent: attempt\ndata: 2\n\n"),
		cut,
		streams(true, at2(2, "a\x1b"), "event: unknown\ndata: x\n\n", "event: end\ndata: {\"result\":\"done\"}\n\n", at2(9, "late")),
	)
	var out bytes.Buffer
	result, err := clientOf(t, s.URL, token).Follow(t.Context(), id, 1, &out)
	if want := "first\nsecond\n\n--- attempt 2 ---\na\ufffd"; err != nil || result != "done" || out.String() != want {
		t.Errorf("%q, %v, wrote %q, want %q", result, err, out.String(), want)
	}
	var from []string
	for _, r := range s.requests() {
		from = append(from, r.Header.Get("Last-Event-ID"))
	}
	must.Match(t, "where it went on", from, []string{"", "1-6", "1-13", "1-13", "2-0", "2-0"})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

// TestFollowEnds stops at errors that a retry cannot fix.
//
// Shows: platform-attacks 18
func TestFollowEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		to     io.Writer
		want   error
		text   string
	}{
		{"refused", says(404, `{"errors":["there is no such run"]}`), io.Discard, oci.ErrNotFound, "no such run"},
		{"runs back", streams(true, at(6, "x"), at(3, "y")), io.Discard, oci.ErrCorrupt, ""},
		{"no offset", streams(true, "data: \"x\"\n\n"), io.Discard, oci.ErrCorrupt, ""},
		{"no text", streams(true, "id: 1-1\ndata: 7\n\n"), io.Discard, oci.ErrCorrupt, ""},
		{"another attempt that was not told", streams(true, at(6, "x"), at2(7, "y")), io.Discard, oci.ErrCorrupt, ""},
		{"an attempt that begins in its middle", streams(true, "id: 2-7\nevent: attempt\ndata: 2\n\n"), io.Discard, oci.ErrCorrupt, ""},
		{"long", streams(true, "data: "+strings.Repeat("x", 1<<20)+"\n\n"), io.Discard, oci.ErrCorrupt, "262144 bytes"},
		{"nowhere to write", streams(true, at(1, "x")), full{}, nil, "no space"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, tt.answer)
			_, err := clientOf(t, s.URL, token).Follow(t.Context(), id, 1, tt.to)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %v, %s", err, tt.want, tt.text)
			}
			must.Equal(t, "requests", len(s.requests()), 1)
		})
	}
	s := newScript(t, streams(true))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(s.requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := clientOf(t, s.URL, token).Follow(ctx, id, 1, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
