// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
)

func testKeyring(t testing.TB, secrets ...byte) *keyring.Ring {
	t.Helper()
	var keys []keyring.Key
	for _, b := range secrets {
		keys = append(keys, keyring.Key{Secret: bytes.Repeat([]byte{b}, 32)})
	}
	return must.Get(keyring.New(keys))(t)
}

func testSignedUpload() signedUpload {
	return signedUpload{Kind: signedState, Workspace: "ws-YQBi", Lock: "tfe-x", Serial: 7, Lineage: "l-1", MD5: strings.Repeat("ab", 16), Force: true, Proof: access.Proof{Mode: "static", Subject: "ci"}}
}

func mustIssue(t testing.TB, k signer, v signedUpload) string {
	t.Helper()
	return must.Get(k.issue(v, v.Caller(), uploadURLTime))(t)
}

func refusedWith(err error) int {
	if e, ok := errors.AsType[*refusal](err); ok {
		return e.status
	}
	return 0
}

// Shows: cloud 16 | an upload URL: changed, expired, of another kind, used with other bytes
func TestSignedUpload(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	k := signer{testKeyring(t, 1), func() time.Time { return now }, nil}
	token := mustIssue(t, k, testSignedUpload())
	part := strings.Split(token, ".")
	other := strings.Split(mustIssue(t, k, signedUpload{Kind: signedState, Serial: 8}), ".")
	foreign := mustIssue(t, signer{testKeyring(t, 2), k.now, nil}, testSignedUpload())
	elsewhere, mac := k.keys.Sign("okara-archive-v1", part[1])
	for _, tt := range []struct {
		name, token string
		after       time.Duration
		status      int // 0: valid
	}{
		{name: "good", token: token},
		{name: "until its end", token: token, after: time.Hour - time.Second},
		{name: "expired", token: token, after: time.Hour, status: http.StatusGone},
		{name: "another payload", token: part[0] + "." + other[1] + "." + part[2], status: http.StatusForbidden},
		{name: "expired and forged", token: part[0] + "." + other[1] + "." + part[2], after: 2 * time.Hour, status: http.StatusForbidden},
		{name: "a bit of the payload", token: part[0] + "." + part[1][:10] + "x" + part[1][11:] + "." + part[2], status: http.StatusForbidden},
		{name: "no signature", token: part[0] + "." + part[1] + ".", status: http.StatusForbidden},
		{name: "another key", token: foreign, status: http.StatusForbidden},
		{name: "of another purpose", token: elsewhere + "." + part[1] + "." + mac, status: http.StatusForbidden},
		{name: "more parts", token: token + ".x", status: http.StatusForbidden},
		{name: "empty", token: "", status: http.StatusForbidden},
		{name: "too long", token: token + strings.Repeat("x", maxUploadToken), status: http.StatusForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func(at time.Time) { now = at }(now)
			now = now.Add(tt.after)
			got, err := k.redeem(tt.token)
			if status := refusedWith(err); status != tt.status {
				t.Fatalf("status %d, want %d: %v", status, tt.status, err)
			}
			want := testSignedUpload()
			want.Expires = 1795345200
			if tt.status != 0 {
				want = signedUpload{}
			}
			must.Match(t, "ticket", got, want)
		})
	}
}

// The longest names and subjects still fit.
func TestLongSignedUpload(t *testing.T) {
	long := strings.Repeat("<", maxLineage) // JSON encodes it with six characters
	of := workspaceRef{strings.Repeat("o", maxName), strings.Repeat("w", maxWorkspace)}
	want := signedUpload{Workspace: of.workspaceID(newCommandID(time.Now())), Lock: "tfe-x", Lineage: long, MD5: testSignedUpload().MD5, Proof: access.Proof{Mode: "oidc", Issuer: "https://" + long, Subject: strings.Repeat(long, 4)}}
	k := signer{testKeyring(t, 1), time.Now, nil}
	got, err := k.redeem(mustIssue(t, k, want))
	got.Expires = 0
	if err != nil || got != want {
		t.Errorf("%v: %+v", err, got)
	}
}

// TestSignedUploadRotation: a new first key keeps issued addresses valid.
func TestSignedUploadRotation(t *testing.T) {
	token := mustIssue(t, signer{testKeyring(t, 1), time.Now, nil}, testSignedUpload())
	if _, err := (signer{testKeyring(t, 2, 1), time.Now, nil}).redeem(token); err != nil {
		t.Errorf("a token of the old key: %v", err)
	}
	if _, err := (signer{testKeyring(t, 2), time.Now, nil}).redeem(token); refusedWith(err) != http.StatusForbidden {
		t.Errorf("a token of a removed key: %v", err)
	}
}

// FuzzSignedUpload redeems arbitrary tokens: only an issued token is valid, with its
// original content.
//
// Shows: cloud 24
func FuzzSignedUpload(f *testing.F) {
	k := signer{testKeyring(f, 1), func() time.Time { return time.Unix(1_800_000_000, 0) }, nil}
	good := mustIssue(f, k, testSignedUpload())
	f.Add(good)
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Add("a.e30.b")
	f.Fuzz(func(t *testing.T, token string) {
		got, err := k.redeem(token)
		if err == nil && (token != good || got.Serial != 7) {
			t.Errorf("%q is good: %+v", token, got)
		}
		if err != nil && got != (signedUpload{}) {
			t.Errorf("%q is refused and says %+v", token, got)
		}
	})
}
