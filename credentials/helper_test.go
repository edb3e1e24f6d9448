// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func TestHelperIsAskedOncePerHost(t *testing.T) {
	m := newMachine(t, "linux")
	m.file("home/.docker/config.json", `{"credsStore": "keys"}`)
	m.helper("keys", helperScript{Answers: map[string][2]string{
		"a.example.com":               {"a", "x"},
		"https://b.example.com":       {"<token>", "identity"},
		"https://index.docker.io/v1/": {"hub", "x"},
	}})
	r := m.resolver()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			must.Equal(t, "value", mustCredential(t, r, "a.example.com", "x"), basic("a", "x"))
		})
	}
	wg.Wait()
	for range 3 {
		must.Equal(t, "value", mustCredential(t, r, "b.example.com", "x"), oci.Credential{IdentityToken: "identity"})
		must.Equal(t, "value", mustCredential(t, r, "c.example.com", "x"), oci.Credential{})
		must.Equal(t, "value", mustCredential(t, r, "docker.io", "x"), basic("hub", "x"))
	}
	want := []string{
		"get a.example.com",
		"get b.example.com", "get https://b.example.com",
		"get c.example.com", "get https://c.example.com",
		"get https://index.docker.io/v1/",
	}
	must.Match(t, "value", m.calls("keys"), want)
	if m.log.Len() > 0 {
		t.Errorf("unexpected warnings: %s", m.log.String())
	}
}

// TestHelperSaysMore takes the answer of a helper that prints a line after it, as Docker does.
func TestHelperSaysMore(t *testing.T) {
	m := newMachine(t, "linux")
	m.helper("chatty", helperScript{Raw: `{"ServerURL":"a.example.com","Username":"u","Secret":"s"}` + "\nupdate available: 2.0\n"})
	m.file("home/.docker/config.json", `{"credsStore": "chatty"}`)
	if got := mustCredential(t, m.resolver(), "a.example.com", "x"); got != basic("u", "s") || m.log.Len() > 0 {
		t.Errorf("got %+v, log %s", got, m.log.String())
	}
}

func TestHelperFailuresFallThrough(t *testing.T) {
	const secret = "s3cr3t-of-the-helper"
	tests := []struct {
		name   string
		script helperScript
		reason string
	}{
		{"fails", helperScript{Raw: "keychain is locked\n", Fail: true, Stderr: secret}, `(\"keychain is locked\")`},
		{"fails with its answer", helperScript{Raw: `{"Secret": "` + secret + `"}`, Fail: true}, "exit status 1"},
		{"no JSON", helperScript{Raw: secret}, "not the JSON of the helper protocol"},
		{"too long", helperScript{Raw: strings.Repeat("x", 65<<10)}, "exceeds 65536 bytes"},
		{"empty answer", helperScript{Raw: `{"ServerURL": "", "Username": "", "Secret": ""}`, Stderr: secret}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.helper("bad", tt.script)
			m.file("home/.docker/config.json", `{"credHelpers": {"a.example.com": "bad"}, `+auths("a.example.com", "file:x")[1:])
			r := m.resolver()
			for range 2 {
				must.Equal(t, "the static entry", mustCredential(t, r, "a.example.com", "x"), basic("file", "x"))
			}
			log := m.log.String()
			if !strings.Contains(log, tt.reason) || tt.reason != "" && !strings.Contains(log, "credential helper bad: ") {
				t.Errorf("want a warning with %q, got %s", tt.reason, log)
			}
			if strings.Contains(log, secret) {
				t.Errorf("the warning has the secret: %s", log)
			}
		})
	}
}

func TestHelperThatHangsIsCutOff(t *testing.T) {
	m := newMachine(t, "linux")
	m.helper("slow", helperScript{Hang: true})
	m.file("home/.docker/config.json", `{"credsStore": "slow"}`)
	o := m.options()
	o.HelperTimeout = 50 * time.Millisecond
	must.Equal(t, "value", mustCredential(t, credentials.New(o), "a.example.com", "x"), oci.Credential{})
	if want := `credential helper slow: no response to \"get\" within 50ms`; !strings.Contains(m.log.String(), want) {
		t.Errorf("got %s, want %s", m.log.String(), want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := credentials.New(m.options()).Credential(ctx, "a.example.com", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: got %v", err)
	}
}

// TestExpiry: a helper is asked again before a known end.
func TestExpiry(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	end := start.Add(10 * time.Minute).Unix()
	jwt := "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end)) + ".c2ln"
	ecr := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"payload":"p","expiration":%d}`, end))
	for name, secret := range map[string]string{"JWT": jwt, "ECR": ecr} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.helper("h", helperScript{Answers: map[string][2]string{"a.example.com": {"AWS", secret}}})
			m.file("home/.docker/config.json", `{"credsStore": "h"}`)
			now := start
			o := m.options()
			o.Now = func() time.Time { return now }
			r := credentials.New(o)
			for _, step := range []struct {
				after time.Duration
				calls int
			}{{0, 1}, {8 * time.Minute, 1}, {10 * time.Minute, 2}} {
				now = start.Add(step.after)
				mustCredential(t, r, "a.example.com", "x")
				if got := len(m.calls("h")); got != step.calls {
					t.Errorf("after %s: %d calls, want %d", step.after, got, step.calls)
				}
			}
		})
	}
}

func TestRejected(t *testing.T) {
	m := newMachine(t, "linux")
	m.helper("h", helperScript{Answers: map[string][2]string{"a.example.com": {"u", "old"}, "b.example.com": {"u", "old"}}})
	m.file("home/.docker/config.json", `{"credHelpers": {"a.example.com": "h", "b.example.com": "h"}}`)
	m.file("home/.tofurc", `oci_credentials "c.example.com" {
  access_token  = "access"
  refresh_token = "refresh"
}
`)
	now := time.Unix(1_800_000_000, 0)
	o := m.options()
	o.Now = func() time.Time { return now }
	r := credentials.New(o)
	old := mustCredential(t, r, "a.example.com", "x")
	mustCredential(t, r, "b.example.com", "x")

	r.Rejected("a.example.com", "x", old, false)
	if mustCredential(t, r, "a.example.com", "x"); len(m.calls("h")) != 2 {
		t.Errorf("a fresh answer was asked for again: %q", m.calls("h"))
	}
	now = now.Add(time.Hour)
	r.Rejected("a.example.com", "x", basic("u", "another"), false)
	if mustCredential(t, r, "a.example.com", "x"); len(m.calls("h")) != 2 {
		t.Errorf("an answer that was not rejected was asked for again: %q", m.calls("h"))
	}
	r.Rejected("a.example.com", "x", old, false)
	for range 2 {
		mustCredential(t, r, "a.example.com", "x")
		mustCredential(t, r, "b.example.com", "x")
	}
	if got := len(m.calls("h")); got != 3 {
		t.Errorf("got %d calls after the rejection, want 3: %q", got, m.calls("h"))
	}

	both := mustCredential(t, r, "c.example.com", "x")
	if want := (oci.Credential{RegistryToken: "access", IdentityToken: "refresh"}); both != want {
		t.Errorf("got %+v, want %+v", both, want)
	}
	r.Rejected("c.example.com", "x", both, false)
	if got, want := mustCredential(t, r, "c.example.com", "x"), (oci.Credential{IdentityToken: "refresh"}); got != want {
		t.Errorf("after the access token was refused: got %+v, want %+v", got, want)
	}

	m.file("home/.docker/config.json", auths("a.example.com", "rotated:x"))
	r.Rejected("a.example.com", "x", old, false)
	must.Equal(t, "a changed file is not read again", mustCredential(t, r, "a.example.com", "x"), basic("rotated", "x"))
}

func TestCloudHelpers(t *testing.T) {
	tests := []struct{ host, helper string }{
		{"123456789012.dkr.ecr.eu-central-1.amazonaws.com", "ecr-login"},
		{"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com", "ecr-login"},
		{"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "ecr-login"},
		{"public.ecr.aws", "ecr-login"},
		{"s3.eu-central-1.amazonaws.com", ""},
		{"evil.dkr.ecr.example.com", ""},
		{"europe-docker.pkg.dev", "gcloud"},
		{"eu.gcr.io", "gcloud"},
		{"gcr.io", "gcloud"},
		{"notgcr.io", ""},
		{"acme.azurecr.io", "acr-env"},
	}
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			m := newMachine(t, "linux")
			for _, name := range []string{"ecr-login", "gcloud", "acr-env"} {
				m.helper(name, helperScript{Answers: map[string][2]string{tt.host: {name, "x"}}})
			}
			must.Equal(t, "value", mustCredential(t, m.resolver(), tt.host, "a").Username, tt.helper)
			m.file("home/.docker/config.json", auths(tt.host, "login:x"))
			must.Equal(t, "a login must win", mustCredential(t, m.resolver(), tt.host, "a").Username, "login")
		})
	}
}
