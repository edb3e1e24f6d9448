// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
)

var testBlob = blobName{Repository: "acme/modules/net/vpc/aws", Hex: strings.Repeat("ab", 32), File: "net-vpc-aws-1.0.0.zip"}

func testKey(b byte) keyring.Key { return keyring.Key{Secret: bytes.Repeat([]byte{b}, 32)} }

func newTestLinks(t testing.TB, now *time.Time, keys ...keyring.Key) *links {
	t.Helper()
	ring := must.Get(keyring.New(keys))(t)
	return &links{keys: ring, ttl: 4 * time.Hour, now: func() time.Time { return *now }}
}

// tokenOf returns the second segment of a link.
func tokenOf(path string) string { return strings.Split(path, "/")[1] }

// TestLinkBinds: a signed link is valid for one blob and its time only.
//
// Shows: aws-registry 5 | signed links, 4 hours | links signed for one digest, 4 hours by default,
// `--archive-ttl`
// Shows: opendepot-defects 4 | archive addresses that can name any bucket
func TestLinkBinds(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	l := newTestLinks(t, &now, testKey(1))
	token := tokenOf(l.signedPath(testBlob, l.linkExpiry()))
	part := strings.Split(token, ".")
	other := newTestLinks(t, &now, testKey(2))
	tests := []struct {
		name   string
		token  string
		change func(*blobName)
		at     time.Duration
		status int // 0: valid
	}{
		{name: "good", token: token},
		{name: "until its end", token: token, at: 4*time.Hour - time.Second},
		{name: "expired", token: token, at: 5 * time.Hour, status: http.StatusGone},
		{name: "other repository", token: token, change: func(b *blobName) { b.Repository = "acme/modules/net/vpc/gcp" }, status: http.StatusForbidden},
		{name: "other digest", token: token, change: func(b *blobName) { b.Hex = strings.Repeat("cd", 32) }, status: http.StatusForbidden},
		{name: "other name", token: token, change: func(b *blobName) { b.File = "x.zip" }, status: http.StatusForbidden},
		{name: "boundary moved", token: token, change: func(b *blobName) { b.Repository, b.Hex = b.Repository+"\n"+b.Hex, "" }, status: http.StatusForbidden},
		{name: "lengthened", token: part[0] + ".9999999999." + part[2], status: http.StatusForbidden},
		{name: "expiry written otherwise", token: part[0] + ".0" + part[1] + "." + part[2], status: http.StatusForbidden},
		{name: "foreign key", token: tokenOf(other.signedPath(testBlob, other.linkExpiry())), status: http.StatusForbidden},
		{name: "expired and forged", token: part[0] + ".1." + part[2], status: http.StatusForbidden},
		{name: "empty", token: "", status: http.StatusForbidden},
		{name: "no signature", token: part[0] + "." + part[1] + ".", status: http.StatusForbidden},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func(at time.Time) { now = at }(now)
			now = now.Add(tt.at)
			b := testBlob
			if tt.change != nil {
				tt.change(&b)
			}
			_, err := l.verify(tt.token, b)
			e, _ := errors.AsType[*service.Error](err)
			must.Equal(t, "status", statusOf(e), tt.status)
		})
	}
}

func statusOf(e *service.Error) int {
	if e == nil {
		return 0
	}
	return e.Status
}

// TestLinkRotation checks that links stay valid when a new first key is added.
func TestLinkRotation(t *testing.T) {
	now := time.Now()
	before := newTestLinks(t, &now, testKey(1))
	token := tokenOf(before.signedPath(testBlob, before.linkExpiry()))
	after := newTestLinks(t, &now, testKey(2), testKey(1))
	if _, err := after.verify(token, testBlob); err != nil {
		t.Errorf("a link of the old key: %v", err)
	}
	if tokenOf(after.signedPath(testBlob, after.linkExpiry())) == token {
		t.Error("new links are still made with the old key")
	}
	gone := newTestLinks(t, &now, testKey(2))
	if _, err := gone.verify(token, testBlob); err == nil {
		t.Error("a link of a removed key is still good")
	}
}

// TestLinkStable: links are stable for a quarter of their life, never shorter than promised.
func TestLinkStable(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC)
	l := newTestLinks(t, &now, testKey(1))
	seen := map[int64]bool{}
	for range 240 {
		exp := l.linkExpiry()
		seen[exp] = true
		if life := time.Unix(exp, 0).Sub(now); life < 4*time.Hour || life > 5*time.Hour {
			t.Fatalf("a link lives %v, want 4 to 5 hours", life)
		}
		now = now.Add(time.Minute)
	}
	must.Equal(t, "different ends in four hours", len(seen), 4)
}

// FuzzLink accepts signed links only.
func FuzzLink(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	l := newTestLinks(f, &now, testKey(1))
	good := strings.TrimPrefix(l.signedPath(testBlob, l.linkExpiry()), "archives/")
	f.Add(good)
	f.Add("public/" + testBlob.Repository + "/" + testBlob.Hex + "/x")
	f.Add("a.1.b/../" + testBlob.Hex + "/x")
	f.Fuzz(func(t *testing.T, path string) {
		token, rest, _ := strings.Cut(path, "/")
		b, ok := parseBlobName(rest)
		if !ok {
			return
		}
		if b.Repository+"/"+b.Hex+"/"+b.File != rest {
			t.Fatalf("%q was read as %+v", rest, b)
		}
		if _, err := l.verify(token, b); err == nil && path != good {
			t.Fatalf("accepted %q", path)
		}
	})
}
