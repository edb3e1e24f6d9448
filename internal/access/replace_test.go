// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
)

// TestReplace changes the policy during requests that need two rights: each gets both or none. None
// that was screened under the old policy is accepted for a foreign host under the new one.
func TestReplace(t *testing.T) {
	read, write := access.Policy{Anonymous: rights.AnonymousRead()}, access.Policy{Anonymous: rights.AnonymousAll()}
	keys := must.Get(keyring.New([]keyring.Key{{Secret: make([]byte, 32)}}))(t)
	var decisions []string
	g := must.Get(access.New(access.Options{Policy: read, Keyring: keys, Decided: func(_, decision string) { decisions = append(decisions, decision) }}))(t)
	var changing sync.WaitGroup
	done := make(chan struct{})
	changing.Go(func() {
		for i := 0; ; i++ {
			if err := g.Replace([]access.Policy{write, read}[i%2]); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	needed := []rights.Right{
		{Action: rights.Publish, Kind: rights.Kind("module"), Address: "acme/a/b"}, {Action: rights.Publish, Kind: rights.Kind("module"), Address: "acme/c/d"},
	}
	local, strange := httptest.NewRequest(http.MethodPut, "http://localhost/", nil), httptest.NewRequest(http.MethodPut, "http://evil.example/", nil)
	for range 20_000 {
		decisions = nil
		if _, err := g.AllowAll(local, needed); err == nil != slices.Equal(decisions, []string{"allowed", "allowed"}) || err != nil && !slices.Equal(decisions, []string{"denied"}) {
			t.Fatalf("%v: %v", decisions, err)
		}
		if _, err := g.AllowAll(strange, needed); err == nil {
			t.Fatal("a page whose name is not of this server may write")
		}
	}
	close(done)
	changing.Wait()

	if err := g.Replace(access.Policy{Issuers: []access.Issuer{{URL: "https://issuer.example"}}}); err == nil {
		t.Error("an issuer without audience was taken")
	}
	if err := keys.Replace(nil); err == nil {
		t.Error("no keys were taken")
	}
	id, signature := keys.Sign("a", "line")
	if err := keys.Replace([]keyring.Key{{Secret: make([]byte, 33)}, {Secret: make([]byte, 32)}}); err != nil || !keys.Verify("a", id, signature, "line") || keys.Set() != 1 {
		t.Errorf("a key that stays: %v, set %d", err, keys.Set())
	}
	if err := keys.Replace([]keyring.Key{{Secret: make([]byte, 33)}}); err != nil || keys.Verify("a", id, signature, "line") || keys.Set() != 2 {
		t.Errorf("a key that is gone: %v, set %d", err, keys.Set())
	}
}

// TestAuditIsSafe: a user agent breaks no line of the audit log, reverses no text, and is bounded.
func TestAuditIsSafe(t *testing.T) {
	var log bytes.Buffer
	g := newGuard(t, access.Options{Audit: slog.New(slog.NewTextHandler(&log, nil))})
	r := asking("/v1/modules", "")
	r.Header.Set("User-Agent", "tofu\u202e\x1b[2J\u200b "+strings.Repeat("x", 1<<10)+" end")
	g.Record(r, access.Record{})
	if got := log.String(); !strings.Contains(got, "tofu\ufffd\ufffd[2J\ufffd xxx") || strings.Contains(got, "end") {
		t.Errorf("got %s", got)
	}
}
