// SPDX-License-Identifier: Apache-2.0

package signing_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
)

func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func newKey(t testing.TB, o signing.KeyOptions) (*signing.Key, signing.PublicKey) {
	t.Helper()
	o.Name, o.ECC = "Test", true
	if o.Now == nil {
		o.Now = func() time.Time { return day(1) }
	}
	k := must.Get(signing.NewKey(o))(t)
	return k, mustPublic(t, k)
}

func mustPublic(t testing.TB, k *signing.Key) signing.PublicKey {
	t.Helper()
	public := must.Get(k.Public())(t)
	// Through the armor, as in every other program.
	keys, err := signing.ParsePublicKeys([]byte(public.Armor))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	return keys[0]
}

func mustSign(t testing.TB, k *signing.Key, message string, now time.Time) []byte {
	t.Helper()
	return must.Get(k.Sign([]byte(message), now))(t)
}

func TestVerify(t *testing.T) {
	one, onePub := newKey(t, signing.KeyOptions{})
	two, twoPub := newKey(t, signing.KeyOptions{})
	short, shortPub := newKey(t, signing.KeyOptions{Lifetime: 48 * time.Hour})
	revoked, _ := newKey(t, signing.KeyOptions{})
	const message = "sums"
	byRevoked := mustSign(t, revoked, message, day(2))
	must.Succeed(t, revoked.Revoke(day(2), "lost"))
	revokedPub := mustPublic(t, revoked)
	byOne, byTwo, byShort := mustSign(t, one, message, day(2)), mustSign(t, two, message, day(2)), mustSign(t, short, message, day(2))

	tests := []struct {
		name    string
		message string
		sig     []byte
		keys    []signing.PublicKey
		expired bool
		want    error
		text    string
	}{
		{name: "good", message: message, sig: byOne, keys: []signing.PublicKey{onePub}},
		{name: "second key", message: message, sig: byTwo, keys: []signing.PublicKey{onePub, twoPub}},
		{name: "second packet", message: message, sig: slices.Concat(byOne, byTwo), keys: []signing.PublicKey{twoPub}},
		{name: "other message", message: "other", sig: byOne, keys: []signing.PublicKey{onePub}, want: signing.ErrBadSignature, text: onePub.ID},
		{name: "unknown", message: message, sig: byOne, keys: []signing.PublicKey{twoPub}, want: signing.ErrUnknownKey, text: onePub.ID},
		{name: "no keys", message: message, sig: byOne, want: signing.ErrUnknownKey},
		{name: "expired", message: message, sig: byShort, keys: []signing.PublicKey{shortPub}, want: signing.ErrExpiredKey, text: "2026-01-03"},
		{name: "expired but allowed", message: message, sig: byShort, keys: []signing.PublicKey{shortPub}, expired: true},
		{name: "revoked", message: message, sig: byRevoked, keys: []signing.PublicKey{revokedPub}, expired: true, want: signing.ErrRevokedKey},
		{name: "expired beside unknown", message: message, sig: slices.Concat(byOne, byShort), keys: []signing.PublicKey{shortPub}, want: signing.ErrExpiredKey},
		{name: "garbage", message: message, sig: []byte("hello"), keys: []signing.PublicKey{onePub}, want: signing.ErrBadSignature},
		{name: "empty", message: message, keys: []signing.PublicKey{onePub}, want: signing.ErrBadSignature},
		{name: "too long", message: message, sig: make([]byte, 1<<20), keys: []signing.PublicKey{onePub}, want: signing.ErrBadSignature},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := signing.Verify([]byte(tt.message), tt.sig, tt.keys, signing.VerifyOptions{Now: day(10), AllowExpired: tt.expired})
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestSignRefuses(t *testing.T) {
	k, _ := newKey(t, signing.KeyOptions{Lifetime: 48 * time.Hour})
	if _, err := k.Sign([]byte("x"), day(4)); !errors.Is(err, signing.ErrExpiredKey) {
		t.Errorf("expired: got %v", err)
	}
	must.Succeed(t, k.Revoke(day(1), ""))
	if _, err := k.Sign([]byte("x"), day(2)); !errors.Is(err, signing.ErrRevokedKey) {
		t.Errorf("revoked: got %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	k, public := newKey(t, signing.KeyOptions{Email: "a@example.com"})
	for _, passphrase := range []string{"", "correct horse"} {
		b := must.Get(k.Armor([]byte(passphrase)))(t)
		back := must.Get(signing.ParseKey(b, []byte(passphrase)))(t)
		sig := mustSign(t, back, "m", day(2))
		if _, err := signing.Verify([]byte("m"), sig, []signing.PublicKey{public}, signing.VerifyOptions{Now: day(2)}); err != nil {
			t.Error(err)
		}
		if passphrase == "" {
			continue
		}
		for _, wrong := range []string{"", "battery staple"} {
			if _, err := signing.ParseKey(b, []byte(wrong)); err == nil || wrong != "" && strings.Contains(err.Error(), wrong) {
				t.Errorf("passphrase %q: %v", wrong, err)
			}
		}
	}
	if _, err := signing.ParseKey([]byte(public.Armor), nil); err == nil {
		t.Error("a public key was taken for a private one")
	}
	private := must.Get(k.Armor(nil))(t)
	if _, err := signing.ParsePublicKeys(private); err == nil {
		t.Error("a private key was taken for a public one")
	}
}

func TestParsePublicKeysSplitsBlocks(t *testing.T) {
	_, one := newKey(t, signing.KeyOptions{})
	_, two := newKey(t, signing.KeyOptions{Lifetime: 24 * time.Hour})
	keys := must.Get(signing.ParsePublicKeys([]byte(one.Armor + "\n" + two.Armor)))(t)
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
		if strings.Count(k.Armor, "BEGIN") != 1 {
			t.Errorf("armor of %s holds several blocks", k.ID)
		}
	}
	must.Match(t, "value", ids, []string{one.ID, two.ID})
	signing.SortKeys(keys, day(9))
	if keys[0].ID != one.ID || !keys[1].Expired(day(9)) {
		t.Error("an expired key is not last")
	}
	for _, s := range []string{"", "hello", one.Armor[:200]} {
		if _, err := signing.ParsePublicKeys([]byte(s)); err == nil {
			t.Errorf("%.20q: want an error", s)
		}
	}
}

func TestRSAKeyAndGnuPG(t *testing.T) {
	k := must.Get(signing.NewKey(signing.KeyOptions{Name: "Acme", Email: "release@example.com"}))(t)
	public := must.Get(k.Public())(t)
	if got := public.Expires.Sub(public.Created); got != signing.DefaultLifetime || public.UserID != "Acme <release@example.com>" {
		t.Errorf("lifetime %v, user %q", got, public.UserID)
	}
	next := must.Get(signing.Successor(public, time.Hour))(t)
	successor, err := next.Public()
	if err != nil || successor.UserID != public.UserID || successor.ID == public.ID || successor.Expires.Sub(successor.Created) != time.Hour {
		t.Errorf("successor %+v, %v", successor, err)
	}
	if sig := mustSign(t, next, "message\n", time.Now()); len(sig) < 4096/8 {
		t.Errorf("the successor of an RSA key signs with %d bytes", len(sig))
	}
	sig := mustSign(t, k, "message\n", time.Now())
	if _, err := signing.Verify([]byte("message\n"), sig, []signing.PublicKey{public}, signing.VerifyOptions{}); err != nil {
		t.Error(err)
	}
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Skip("gpg is not on PATH")
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"key.asc": []byte(public.Armor), "m": []byte("message\n"), "m.sig": sig} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for _, args := range [][]string{{"--import", "key.asc"}, {"--verify", "m.sig", "m"}} {
		cmd := exec.CommandContext(t.Context(), gpg, append([]string{"--homedir", dir, "--batch"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("gpg %v: %v\n%s", args, err, out)
		}
	}
}

func TestParseSums(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("B", 64)
	got := must.Get(signing.ParseSums([]byte(a + "  x.zip\r\n\n" + b + " *y.zip\n")))(t)
	must.Match(t, "value", got, signing.Sums{"x.zip": a, "y.zip": strings.ToLower(b)})
	must.Match(t, "value", string(got.Bytes()), a+"  x.zip\n"+strings.ToLower(b)+"  y.zip\n")
	must.Succeed(t, got.Check("x.zip", a))
	for name, sum := range map[string]string{"x.zip": strings.ToLower(b), "z.zip": a} {
		if err := got.Check(name, sum); !errors.Is(err, signing.ErrSums) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, s := range []string{"x", a, a + "  ", a[:60] + "  x", a + "  ../x", a + "  x\n" + b + "  x"} {
		if _, err := signing.ParseSums([]byte(s)); !errors.Is(err, signing.ErrSums) {
			t.Errorf("%q: got %v", s, err)
		}
	}
}

// TestVerifyClocks verifies signatures with clocks that are right, ahead and
// behind: a revocation applies at any time, an expiry only after its time.
//
// Shows: mistakes 21
func TestVerifyClocks(t *testing.T) {
	const message = "sums"
	type made struct {
		key signing.PublicKey
		sig []byte
	}
	plain, plainPub := newKey(t, signing.KeyOptions{})
	short, shortPub := newKey(t, signing.KeyOptions{Lifetime: 48 * time.Hour})
	lost, _ := newKey(t, signing.KeyOptions{})
	byLost := mustSign(t, lost, message, day(2))
	must.Succeed(t, lost.Revoke(day(5), "lost"))
	for name, test := range map[string]struct {
		made
		expired bool
		want    map[int]error // by the day on the clock
	}{
		"good":                 {made{plainPub, mustSign(t, plain, message, day(2))}, false, map[int]error{1: signing.ErrEarlyKey, 2: nil, 20: nil}},
		"before, allowed":      {made{plainPub, mustSign(t, plain, message, day(2))}, true, map[int]error{1: nil}},
		"expires":              {made{shortPub, mustSign(t, short, message, day(2))}, false, map[int]error{2: nil, 4: signing.ErrExpiredKey, 20: signing.ErrExpiredKey}},
		"expires, allowed":     {made{shortPub, mustSign(t, short, message, day(2))}, true, map[int]error{2: nil, 4: nil, 20: nil}},
		"revoked on day 5":     {made{mustPublic(t, lost), byLost}, false, map[int]error{2: signing.ErrRevokedKey, 4: signing.ErrRevokedKey, 6: signing.ErrRevokedKey, 20: signing.ErrRevokedKey}},
		"revoked, may expire":  {made{mustPublic(t, lost), byLost}, true, map[int]error{1: signing.ErrRevokedKey, 4: signing.ErrRevokedKey, 6: signing.ErrRevokedKey}},
		"revoked, another one": {made{mustPublic(t, lost), mustSign(t, plain, message, day(2))}, true, map[int]error{4: signing.ErrUnknownKey, 6: signing.ErrUnknownKey}},
	} {
		for on, want := range test.want {
			_, err := signing.Verify([]byte(message), test.sig, []signing.PublicKey{test.key}, signing.VerifyOptions{Now: day(on), AllowExpired: test.expired})
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s, day %d: got %v, want %v", name, on, err, want)
			}
		}
	}
}

// TestVerifySubkeys: a revoked subkey is not valid, whatever the clock.
func TestVerifySubkeys(t *testing.T) {
	c := &packet.Config{Time: func() time.Time { return day(1) }}
	entity := must.Get(openpgp.NewEntity("Test", "", "", c))(t)
	must.Succeed(t, entity.AddSigningSubkey(c))
	var sig bytes.Buffer
	must.Succeed(t, openpgp.DetachSign(&sig, entity, strings.NewReader("sums"), &packet.Config{Time: func() time.Time { return day(2) }}))
	public := func() []signing.PublicKey {
		var text bytes.Buffer
		w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
		if err == nil {
			err = errors.Join(entity.Serialize(w), w.Close())
		}
		keys, perr := signing.ParsePublicKeys(text.Bytes())
		must.Succeed(t, errors.Join(err, perr))
		return keys
	}
	check := func(want error) {
		t.Helper()
		for _, on := range []int{2, 4, 20} {
			if _, err := signing.Verify([]byte("sums"), sig.Bytes(), public(), signing.VerifyOptions{Now: day(on), AllowExpired: true}); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("day %d: got %v, want %v", on, err, want)
			}
		}
	}
	check(nil)
	for i := range entity.Subkeys {
		if entity.Subkeys[i].Sig.FlagSign {
			must.Succeed(t, entity.RevokeSubkey(&entity.Subkeys[i], packet.NoReason, "lost", &packet.Config{Time: func() time.Time { return day(5) }}))
		}
	}
	check(signing.ErrRevokedKey)
}
