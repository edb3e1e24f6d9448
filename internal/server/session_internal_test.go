// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestSessionSettings reads settings of sessions, and refuses those without effect.
func TestSessionSettings(t *testing.T) {
	const direct = "public_url = \"https://o.example.com\"\nissuer \"https://i.example.com\" {\n  audiences = [\"okara\"]\n}\nlogin {\n  mode = \"direct\"\n  issuer = \"https://i.example.com\"\n  client_id = \"cli\"\n}\n"
	for _, c := range []struct{ name, text, want string }{
		{"all", direct + "ui {\n  session_ttl = \"8h\"\n  client_id = \"web\"\n}", ""},
		{"too long", "ui {\n  session_ttl = \"800h\"\n}", "more than 30 days"},
		{"no length", "ui {\n  session_ttl = \"soon\"\n}", "not a duration"},
		{"a client of nothing", "ui {\n  client_id = \"web\"\n}", "for a direct login"},
		{"a secret of no client", direct + "ui {\n  client_secret_file = \"x\"\n}", "requires client_id"},
		{"a client that nobody comes back to", strings.Replace(direct, "public_url", "hostname", 1) + "ui {\n  client_id = \"web\"\n}", "needs public_url"},
		{"image hosts", "ui {\n  image_hosts = [\"img.shields.io\", \"*.example.com\"]\n}", ""},
		{"images of everywhere", "\nui {\n  image_hosts = [\"*\"]\n}", `okara.hcl:2: image_hosts: "*" is not an image host`},
		{"images by URL", "ui {\n  image_hosts = [\"https://img.shields.io\"]\n}", "without a scheme or a path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "okara.hcl")
			must.Succeed(t, os.WriteFile(file, []byte(c.text), 0o600))
			s := Defaults()
			err := s.Read(file)
			if err == nil {
				_, err = s.newOptions(Env{})
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestSessionKeys makes a session key once, and detects TLS of browsers.
func TestSessionKeys(t *testing.T) {
	s := Defaults()
	s.Storage = t.TempDir()
	first := must.Get(s.UI.sessionKeys(s.Storage, archiveKey))(t)
	again, err := s.UI.sessionKeys(s.Storage, readArchiveKey)
	links, err2 := s.linkKeys(archiveKey)
	if err != nil || err2 != nil || string(first[0].Secret) != string(again[0].Secret) || string(first[0].Secret) == string(links[0].Secret) {
		t.Errorf("%v, %v", err, err2)
	}
	if info, err := os.Stat(filepath.Join(s.Storage, "session.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	s.UI.Keys = []string{filepath.Join(s.Storage, "session.key"), filepath.Join(s.Storage, "archive.key")}
	if both, err := s.UI.sessionKeys(s.Storage, archiveKey); err != nil || len(both) != 2 {
		t.Errorf("%d keys, %v", len(both), err)
	}
	o := &Options{Pages: true, claim: Claim{On: true}, portalKeys: []keyring.Key{first[0]}}
	sessions, err := s.sessions(o)
	if err != nil || sessions.Portals == nil || !sessions.Plain {
		t.Errorf("%+v, %v", sessions, err)
	}
	if _, err := access.New(access.Options{Keyring: sessions.Keyring, Sessions: sessions}); err == nil {
		t.Error("a key of servers and portals was taken")
	}
	for listen, plain := range map[string]bool{"127.0.0.1:8080": true, "[::1]:8080": true, ":8080": false, "10.0.0.1:8080": false} {
		if s.Listen = listen; s.isPlainHTTP() != plain {
			t.Errorf("%s: %v", listen, !plain)
		}
	}
	s.Listen, s.PublicURL = "127.0.0.1:8080", "https://okara.example.com"
	if s.isPlainHTTP() {
		t.Error("behind a proxy with TLS cookies go without")
	}
}
