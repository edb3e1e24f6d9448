// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

func testNow() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func TestCommandID(t *testing.T) {
	now := testNow()
	h, other := newCommandID(now), newCommandID(now)
	if h == other || len(h) != 26 || strings.ToLower(string(h)) != string(h) {
		t.Errorf("handles %q and %q", h, other)
	}
	if got := h.createdAt(); !got.Equal(now) {
		t.Errorf("made at %s, want %s", got, now)
	}
	if got, ok := parseCommandID(string(h), now); !ok || got != h {
		t.Errorf("parsed as %q, %v", got, ok)
	}
	for name, s := range map[string]string{
		"empty": "", "short": string(h[1:]), "long": string(h) + "a", "upper case": strings.ToUpper(string(h)),
		"stray bits": string(h[:25]) + "b", "no base32": strings.Repeat("1", 26), "line end": string(h[:13]) + "\n" + string(h[13:]),
		"of tomorrow": string(newCommandID(now.Add(25 * time.Hour))),
	} {
		if got, ok := parseCommandID(s, now); ok {
			t.Errorf("%s: %q is the handle %q", name, s, got)
		}
	}
	if _, ok := parseCommandID(string(newCommandID(now.Add(59*time.Minute))), now); !ok {
		t.Error("a clock that is a little ahead makes no handles")
	}
}

func TestWorkspaceID(t *testing.T) {
	now := testNow()
	h := newCommandID(now)
	for _, p := range []workspaceRef{
		{"acme", "prod"}, {"a.b-c_d", "Ünïcode/with spaces"}, {"acme", strings.Repeat("w", maxWorkspace)}, {"acme", "?x=1#&"},
	} {
		for _, with := range []commandID{"", h} {
			id := p.workspaceID(with)
			if strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
				t.Errorf("%q has characters that URLs do not keep", id)
			}
			got, gotCommandID, err := parseWorkspaceID(id, now)
			if err != nil || got != p || gotCommandID != with {
				t.Errorf("%q is %v, %q, %v", id, got, gotCommandID, err)
			}
		}
	}
	key := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	good := key("acme\x00prod")
	for name, id := range map[string]string{
		"another kind": "sv-" + good, "no key": "ws-", "handle alone": "ws-." + string(h), "empty handle": "ws-" + good + ".",
		"two handles": "ws-" + good + "." + string(h) + "." + string(h), "padded": "ws-" + good + "=",
		"line end": "ws-" + good[:4] + "\n" + good[4:], "stray bits": "ws-" + key("acme\x00prods")[:13] + "x",
		"no parts": "ws-" + key("acme"), "three parts": "ws-" + key("acme\x00a\x00b"), "slash": "ws-" + key("a/b\x00prod"),
		"parent": "ws-" + key("..\x00prod"), "upper case": "ws-" + key("Acme\x00prod"), "no workspace": "ws-" + key("acme\x00"),
		"control": "ws-" + key("acme\x00a\nb"), "no UTF-8": "ws-" + key("acme\x00\xff"), "long": "ws-" + key("acme\x00"+strings.Repeat("w", 256)),
		"dots": "ws-" + key("acme\x00.."), "very long": "ws-" + strings.Repeat("A", 1<<20),
	} {
		if p, _, err := parseWorkspaceID(id, now); err == nil {
			t.Errorf("%s: %.80q is %v", name, id, p)
		}
	}
}

func TestOtherIDs(t *testing.T) {
	now, p := testNow(), workspaceRef{"acme", "prod"}
	h := newCommandID(now)
	for id, want := range map[string]stateVersion{
		p.versionID(0):       {workspaceRef: p},
		p.versionID(100_001): {workspaceRef: p, n: 100_001},
		p.pendingID(7, h):    {workspaceRef: p, pending: true, serial: 7, commandID: h},
		p.pendingID(0, ""):   {workspaceRef: p, pending: true},
	} {
		if got, err := parseVersionID(id, now); err != nil || got != want {
			t.Errorf("%q is %+v, %v", id, got, err)
		}
	}
	for _, tail := range []string{
		"", ".", ".01", ".-1", ".+1", ".1.1", ".9223372036854775808", ".p", ".p01", ".p1.", ".p1.x", ".p18446744073709551616", ".p1." + string(h) + ".x",
	} {
		if got, err := parseVersionID("sv-"+p.urlKey()+tail, now); err == nil {
			t.Errorf("%q is %+v", tail, got)
		}
	}
	if got, err := parseOutputID(p.outputID(3, "größe")); err != nil || got != (output{p, 3, "größe"}) {
		t.Errorf("an output is %+v, %v", got, err)
	}
	for _, tail := range []string{"", ".3", ".3.", ".03.YQ", ".3.YQ.x", ".3.Y", ".3.YR"} {
		if got, err := parseOutputID("wsout-" + p.urlKey() + tail); err == nil {
			t.Errorf("%q is %+v", tail, got)
		}
	}
	for _, of := range []string{"", "acme"} {
		if organization, got, err := parseProjectID(projectID(of, defaultProject)); err != nil || organization != of || got != defaultProject {
			t.Errorf("a project is %q of %q, %v", got, organization, err)
		}
	}
	for _, id := range []string{"prj-", "prj-Y", projectID("", "a\nb"), projectID("acme", "a\u202eb"), projectID("", "a\u200bb"), projectID("", strings.Repeat("x", maxProject+1)), projectID("ac/me", "x"), projectID("acme", "x\x00y"), "ws-" + p.urlKey()} {
		if _, got, err := parseProjectID(id); err == nil {
			t.Errorf("%q is %q", id, got)
		}
	}
}

// TestLockIDs: a lock belongs to a command, or to a subject of one issuer.
func TestLockIDs(t *testing.T) {
	h := newCommandID(testNow())
	seen := map[string]bool{lockIDOf(h, access.Caller{}): true}
	for _, c := range []access.Caller{
		{Mode: "oidc", Issuer: "https://a", Subject: "me"}, {Mode: "oidc", Issuer: "https://b", Subject: "me"},
		{Mode: "login", Issuer: "https://a", Subject: "me"}, {Mode: "static", Subject: "me"},
	} {
		must.Equal(t, "the lock of a command", lockIDOf(h, c), "tfe-"+string(h))
		id := lockIDOf("", c)
		if seen[id] || len(id) != len("tfs-")+26 || !strings.HasPrefix(id, "tfs-") {
			t.Errorf("%+v has the lock %q", c, id)
		}
		seen[id] = true
	}
}

// FuzzID gives every parser every text: each accepts only the exact ids that are made.
//
// Shows: cloud 24 | arbitrary IDs, upload URLs and bodies; the command ID of one workspace used for
// another
func FuzzID(f *testing.F) {
	now, p := testNow(), workspaceRef{"acme", "prod"}
	h := newCommandID(now)
	for _, s := range []string{
		p.workspaceID(""), p.workspaceID(h), p.versionID(3), p.pendingID(3, h), p.pendingID(3, ""), p.outputID(3, "x"), projectID("acme", "x"), projectID("", "x"), "ws-", "sv-.p", "wsout-..",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if got, h, err := parseWorkspaceID(id, now); err == nil && (got.workspaceID(h) != id || strings.Contains(got.organization, "/")) {
			t.Errorf("%q is %v, %q", id, got, h)
		}
		if got, err := parseVersionID(id, now); err == nil {
			again := got.versionID(got.n)
			if got.pending {
				again = got.pendingID(got.serial, got.commandID)
			}
			if again != id {
				t.Errorf("%q is %+v", id, got)
			}
		}
		if got, err := parseOutputID(id); err == nil && got.outputID(got.n, got.name) != id {
			t.Errorf("%q is %+v", id, got)
		}
		if of, got, err := parseProjectID(id); err == nil && projectID(of, got) != id {
			t.Errorf("%q is %q", id, got)
		}
	})
}

// FuzzRunID: an id has one spelling, and its own parts.
func FuzzRunID(f *testing.F) {
	p := workspaceRef{"acme", "prod"}
	r := runID{p, "abcdefgh23", 7}
	c := newConfigurationID(p, r.record, testNow(), true, false)
	if !c.isSpeculative() || c.isProvisional() || !c.createdAt().Equal(testNow()) {
		f.Fatalf("%s is %v", c, c.createdAt())
	}
	for _, id := range []string{r.String(), r.withPrefix(planPrefix), r.withPrefix(applyPrefix), c.String(), "run-.a.1", r.String() + ".1", "cv-" + p.urlKey() + ".abcdefgh23.00000000ff000000"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		for _, prefix := range []string{runPrefix, planPrefix, applyPrefix} {
			if got, err := parseRunID(id, prefix); err == nil && (got.withPrefix(prefix) != id || !validOrganization(got.organization) || got.n < 1) {
				t.Errorf("%q is %+v", id, got)
			}
		}
		if got, err := parseConfigurationID(id); err == nil && (got.String() != id || !validOrganization(got.organization)) {
			t.Errorf("%q is %+v", id, got)
		}
	})
}

// TestShortID: ids fit hashicorp/tfe, and are told from others.
func TestShortID(t *testing.T) {
	form := regexp.MustCompile(`^ws-[a-zA-Z0-9]{16}$`) // of tfe_variable
	for _, p := range []workspaceRef{{"acme", "prod"}, {"acme", "prod123"}, {"a", strings.Repeat("b", 90)}} {
		id := p.shortID()
		if !form.MatchString(id) || !isShort(id[len("ws-"):]) || isShort(p.urlKey()) || id != p.shortID() {
			t.Errorf("%v is %s, and its key %s", p, id, p.urlKey())
		}
	}
	if long := (workspaceRef{"acme", "prod123"}).workspaceID(""); !form.MatchString(long) {
		t.Errorf("%s is no longer the id that looks like a short one", long)
	}
	if (workspaceRef{"acme", "a"}).shortID()[:9] != (workspaceRef{"acme", "b"}).shortID()[:9] {
		t.Error("two workspaces of one organization begin in two ways")
	}
}

// TestRunPage: a lock names the page of the run that took it, on this server or in CI.
func TestRunPage(t *testing.T) {
	s := locker{signer: signer{publicURL: func(*http.Request) string { return "https://okara.example.com/" }}}
	p := workspaceRef{organization: "acme", workspace: "prod"}
	for _, tt := range []struct {
		name, want string
		g          access.Grant
	}{
		{"run of this server", "https://okara.example.com/ui/runs/acme/prod/abc.3", access.Grant{Caller: access.Caller{Mode: "run", Subject: "abc/3/1"}}},
		{"CI", "https://ci.example.com/7", access.Grant{Caller: access.Caller{Mode: "oidc", Subject: "a/b/c", Origin: map[string]string{"run": "https://ci.example.com/7"}}}},
		{"person", "", access.Grant{Caller: access.Caller{Mode: "oidc", Subject: "alice"}}},
	} {
		must.Equal(t, tt.name, s.runPage(nil, p, tt.g), tt.want)
	}
}
