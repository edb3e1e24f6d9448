// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestKeysRotate replaces the key of a provider: while both are valid, users of either key
// verify every version; then the old one no longer verifies.
func TestKeysRotate(t *testing.T) {
	registry, dir := ocitest.New(t, ocitest.Quirks{}), t.TempDir()
	id, old, _ := strings.Cut(strings.TrimSpace(mustOkara(t, "keys", "new", "--ed25519", "--dir", dir)), "\t")
	var made rotated
	must.Succeed(t, json.Unmarshal([]byte(mustOkara(t, "keys", "rotate", id, "--dir", dir, "--json")), &made))
	mustOkara(t, "publish", "provider", newRelease(t, 1, 1000), "acme/dns", "1.0.0", "--sign-key", old, "--registry", registry)
	verify := func(address, public string) int {
		t.Helper()
		return okara(t, "verify", address, "--openpgp-key", public, "--registry", registry).code
	}
	sign := func(want string, flags ...string) {
		t.Helper()
		args := append([]string{"sign", "acme/dns", "--sign-key", made.New.Private, "--registry", registry}, flags...)
		if got := mustOkara(t, args...); got != want {
			t.Errorf("sign: %q, want %q", got, want)
		}
	}
	if code := verify("acme/dns", made.New.Public); code != cli.ExitFailure {
		t.Errorf("the new key before it signed: exit %d", code)
	}
	sign("acme/dns@1.0.0 signed\n")
	sign("acme/dns@1.0.0 is signed already\n")
	for _, public := range []string{made.Old.Public, made.New.Public} {
		if code := verify("acme/dns", public); code != cli.ExitOK {
			t.Errorf("%s: exit %d", public, code)
		}
	}
	sign("acme/dns@1.0.0 signed\n", "--replace")
	if code := verify("acme/dns", made.Old.Public); code != cli.ExitFailure {
		t.Errorf("the old key that was replaced: exit %d", code)
	}
	if code := verify("acme/dns", made.New.Public); code != cli.ExitOK {
		t.Errorf("the new key alone: exit %d", code)
	}
}
