// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"7", 7 * time.Second},
		{"Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"-1", 0},
		{"soon", 0},
		{"99999999999999999999", 0},
	} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {test.header}}}, now); got != test.want {
			t.Errorf("%q: %s, want %s", test.header, got, test.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	const first, most = 500 * time.Millisecond, 3 * time.Second
	for attempt, limit := range []time.Duration{0, first, 2 * first, 4 * first, most, most} {
		if attempt == 0 {
			continue
		}
		for range 100 {
			if d := backoff(first, most, attempt); d < limit/2 || d > limit {
				t.Fatalf("attempt %d: %s, want between %s and %s", attempt, d, limit/2, limit)
			}
		}
	}
}

func TestRenewAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	// The issuer's clock is years off; only the lifetime counts.
	life := func(seconds int) string { return fmt.Sprintf(`{"iat":1000,"exp":%d}`, 1000+seconds) }
	for _, test := range []struct {
		name, token string
		want        time.Duration // 0: unknown
	}{
		{"five minutes", token(life(300)), 270 * time.Second},
		{"one minute", token(life(60)), 48 * time.Second},
		{"nbf instead of iat", token(`{"nbf":1000,"exp":1060}`), 48 * time.Second},
		{"no beginning", token(`{"exp":1060}`), 0},
		{"expired when issued", token(life(-1)), 0},
		{"years", token(life(1e9)), 0},
		{"opaque", "abcdef", 0},
		{"no JSON", token("x"), 0},
		{"no base64", "a.*.c", 0},
	} {
		got := renewAt(test.token, now)
		if want := now.Add(test.want); test.want == 0 && !got.IsZero() || test.want != 0 && !got.Equal(want) {
			t.Errorf("%s: %s, want %s later", test.name, got, test.want)
		}
	}
}
