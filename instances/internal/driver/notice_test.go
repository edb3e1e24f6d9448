// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// receiver records the notices that it gets, and answers with a list of statuses.
type receiver struct {
	mu       sync.Mutex // guards the fields below
	statuses []int
	bodies   [][]byte
	signed   []string
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, b)
	c.signed = append(c.signed, r.Header.Get(driver.SignatureHeader))
	status := http.StatusNoContent
	if len(c.statuses) > 0 {
		status, c.statuses = c.statuses[0], c.statuses[1:]
	}
	if status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
}

const noticeSecret = "sixteen bytes or more"

func newNotifier(t *testing.T, receiver http.Handler, doc *lifecycle.Document, now time.Time) *driver.Notifier {
	t.Helper()
	s := httptest.NewServer(receiver)
	t.Cleanup(s.Close)
	u := must.Get(url.Parse(s.URL + "/hook?token=in-the-url"))(t)
	return must.Get(driver.NewNotifier(driver.NotifyOptions{
		URL: u, Secret: []byte(noticeSecret), Transport: http.DefaultTransport, Now: func() time.Time { return now },
		View: func(context.Context) (lifecycle.View, error) { return lifecycle.View{Document: doc}, nil },
	}))(t)
}

func noticeOf(id string) jobs.Job {
	return jobs.Job{Kind: driver.KindNotice, Data: map[string]string{
		"event": "e1", "kind": "ready", "at": "2026-11-22T10:00:00Z", "id": id, "template": "sandbox/vpc",
	}}
}

// TestNoticeSigned checks a notice like a receiver that has the secret.
func TestNoticeSigned(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 5, 0, time.UTC)
	doc := &lifecycle.Document{Records: map[string]*lifecycle.Record{"a234567890": {
		ID: "a234567890", Name: "mine", Template: "sandbox/vpc", Phase: lifecycle.Ready, ExpiresAt: now.Add(time.Hour),
		Owner:      template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "u1", Label: "anna"},
		Parameters: map[string]json.RawMessage{"key": json.RawMessage(`"planted-parameter"`)},
		Outputs:    map[string]json.RawMessage{"url": json.RawMessage(`"planted-output"`)},
		Connection: &template.Connection{Type: "web", URL: "https://planted-connection"},
		Reason:     "planted-reason",
		Left:       []string{"a.b"},
		Offer:      &lifecycle.Offer{To: template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "u2"}, By: lifecycle.Actor{Subject: "u1"}},
		Run:        &lifecycle.Run{Error: "planted-error", Counts: &lifecycle.Counts{Add: 2}},
	}}}
	var c receiver
	n := newNotifier(t, &c, doc, now)
	for _, id := range []string{"a234567890", "b234567890"} {
		must.Get(n.Do(t.Context(), noticeOf(id)))(t)
	}
	if len(c.bodies) != 2 {
		t.Fatalf("%d notices, want 2", len(c.bodies))
	}
	at, signature, ok := strings.Cut(c.signed[0], ",v1=")
	mac := hmac.New(sha256.New, []byte(noticeSecret))
	mac.Write([]byte(strings.TrimPrefix(at, "t=") + "." + string(c.bodies[0])))
	if want := hex.EncodeToString(mac.Sum(nil)); !ok || at != "t=1795341605" || signature != want {
		t.Errorf("signed %q, want t=1795341605,v1=%s", c.signed[0], want)
	}
	for _, body := range c.bodies {
		if strings.Contains(string(body), "planted") {
			t.Errorf("the notice has what it must not: %s", body)
		}
	}
	var got, gone driver.NoticeBody
	must.Succeed(t, json.Unmarshal(c.bodies[0], &got))
	must.Succeed(t, json.Unmarshal(c.bodies[1], &gone))
	rec := doc.Records["a234567890"]
	if diff := cmp.Diff(got, driver.NoticeBody{
		Event: "e1", Kind: "ready", At: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), Template: "sandbox/vpc", ID: rec.ID,
		Name: "mine", Phase: lifecycle.Ready, Owner: &rec.Owner, ExpiresAt: rec.ExpiresAt, Counts: rec.Run.Counts, OfferedTo: &rec.Offer.To, Left: rec.Left,
	}); diff != "" {
		t.Errorf("notice (-got +want)\n%s", diff)
	}
	if gone.Event != "e1" || gone.Phase != "" {
		t.Errorf("notice of a removed instance: %+v", gone)
	}
}

// TestNoticeAgain: repeated after failure and redirect, without secrets in errors.
func TestNoticeAgain(t *testing.T) {
	c := receiver{statuses: []int{http.StatusInternalServerError, http.StatusFound, http.StatusOK}}
	n := newNotifier(t, &c, &lifecycle.Document{}, time.Now())
	for i, want := range []string{"status 500", "no redirect is followed", ""} {
		_, err := n.Do(t.Context(), noticeOf("a234567890"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("try %d: %v, want %q", i, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "in-the-url") || strings.Contains(err.Error(), noticeSecret)) {
			t.Errorf("try %d tells a secret: %v", i, err)
		}
	}
	must.Equal(t, "requests", len(c.bodies), 3)
}

// TestNewNotifier refuses invalid receivers, receivers without TLS, and short secrets.
func TestNewNotifier(t *testing.T) {
	tests := []struct{ name, url, secret, want string }{
		{"plain", "http://example.com/x", noticeSecret, "https"},
		{"user", "https://user:planted@example.com/x", noticeSecret, "user"},
		{"no host", "https:///x", noticeSecret, "address"},
		{"short secret", "https://example.com/x", "short", "at least 16"},
		{"good", "https://example.com/x", noticeSecret, ""},
		{"loopback", "http://127.0.0.1:1/x", noticeSecret, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			_, err = driver.NewNotifier(driver.NotifyOptions{URL: u, Secret: []byte(tt.secret)})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "planted") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

// TestOwnActs takes an instance from its launch to its end: acts of the server itself are
// recorded once each, with their outcome; requests of users are not recorded here.
//
// Shows: mistakes 39
func TestOwnActs(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		var log bytes.Buffer // written only by the loop of the reconciler
		w.options.Audit = slog.New(slog.NewJSONHandler(&log, nil))
		stop := w.run(t)
		synctest.Wait() // it leads before the launch, so that the launch is not in its first document
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		w.until(t, rec.ID, 10*time.Hour, lifecycle.Destroyed)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		var got []string
		for line := range strings.Lines(log.String()) {
			var r auditlog.Record
			must.Succeed(t, json.Unmarshal([]byte(line), &r))
			if r.Kind != "instance" || r.Address != "sandbox/vpc/"+rec.ID || r.Mode != "server" {
				t.Errorf("%+v", r)
			}
			got = append(got, strings.TrimSpace(r.Action+" "+r.Outcome+" "+r.Subject))
		}
		want := []string{"run-apply done anna", "expired done", "run-destroy done"}
		if !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	})
}
