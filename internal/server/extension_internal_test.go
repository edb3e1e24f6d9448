// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// greeter is an extension that serves a word of the file below /api/v1/.
type greeter struct {
	blocks struct {
		Greeting *struct {
			Word  string    `hcl:"word"`
			Alone bool      `hcl:"alone,optional"`
			Range hcl.Range `hcl:",def_range"`
		} `hcl:"greeting,block"`
	}
	opened bool
}

func (g *greeter) Blocks() []any { return []any{&g.blocks} }

func (g *greeter) Check(*Settings) (c Claim, err error) {
	if b := g.blocks.Greeting; b != nil {
		c = Claim{On: true, Alone: b.Alone, Range: b.Range, PortalKeys: []string{"/nowhere"}, Runs: &b.Range}
	}
	return c, nil
}

func (g *greeter) CheckTool(context.Context, Env) error { return nil }

func (g *greeter) Prepare(*Settings, Env) error {
	if b := g.blocks.Greeting; b != nil && b.Word == "" {
		return syntax.WrongAt(b.Range, io.ErrUnexpectedEOF)
	}
	return nil
}

func (g *greeter) Open(context.Context, Base) (Hooks, error) {
	g.opened = true
	return Hooks{Kept: func() access.Kept { return access.Kept{Groups: []string{"all"}} }}, nil
}

func (g *greeter) Start(kit *service.Kit, _ *catalog.Catalog) (*Mounted, error) {
	mux := kit.Mux()
	mux.Handle("GET /api/v1/greeting", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, g.blocks.Greeting.Word) }))
	return &Mounted{API: mux}, nil
}

func readExtended(t *testing.T, words string) (*Settings, *greeter, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(words), 0o600))
	s, g := Defaults(), &greeter{}
	s.Extension = g
	return s, g, s.Read(file)
}

// TestExtension serves the extension with its block, alone if that says so.
func TestExtension(t *testing.T) {
	for _, tt := range []struct {
		text              string
		greets, discovers int
	}{
		{"anonymous = []\n", 404, 200},
		{"anonymous = []\ngreeting {\n  word = \"hello\"\n}\n", 200, 200},
		{"greeting {\n  word  = \"hello\"\n  alone = true\n}\n", 200, 404},
	} {
		s, g := must.GetBoth(readExtended(t, tt.text))(t)
		client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}}))(t)
		ring := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("b"), 32)}}))(t)
		o := Options{
			Options: registry.Options{Client: client}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}},
			Metrics: NewMetrics(), Sessions: &access.Sessions{Keyring: ring}, claim: s.Claim,
		}
		must.Succeed(t, o.extend(t.Context(), s, backend{client: client}, Env{}))
		front := must.Get(New(o))(t)
		if w := get(t, front, "/api/v1/greeting", same); w.Code != tt.greets || w.Code == 200 && w.Body.String() != "hello" {
			t.Errorf("%q: %d %s", tt.text, w.Code, w.Body)
		}
		if w := get(t, front, "/.well-known/terraform.json", same); w.Code != tt.discovers {
			t.Errorf("%q: discovery is %d", tt.text, w.Code)
		}
		if on := tt.greets == 200; g.opened != on || (o.Sessions.Keep != nil) != on {
			t.Errorf("%q: opened is %v", tt.text, g.opened)
		}
	}
}

// TestExtensionRefused: errors of the extension's blocks have the line.
func TestExtensionRefused(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"what nobody takes":     {"\ngreetings {}\n", "okara.hcl:2: Blocks of type \"greetings\" are not expected here. Did you mean \"greeting\"?"},
		"missing":               {"greeting {}\n", "okara.hcl:1: The argument \"word\" is required"},
		"what it means":         {"anonymous = []\n\ngreeting {\n  word = \"\"\n}\n", "okara.hcl:3: unexpected EOF"},
		"keys of portals":       {"anonymous = []\ngreeting {\n  word = \"a\"\n}\n", "okara.hcl:2: portal_session_key_files: /nowhere: "},
		"modules for everybody": {"greeting {\n  word = \"a\"\n}\n", "okara.hcl:1: no setting restricts access: every caller could publish modules, which run here"},
	} {
		s, _, err := readExtended(t, tt.text)
		if err == nil {
			_, err = s.newOptions(Env{})
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := readSettings(t, "tfe {\n  runs = \"local\"\n}\n"); err == nil || !strings.Contains(err.Error(), "okara.hcl:1: runs = \"local\": this server cannot run plans") {
		t.Errorf("runs where nothing runs: %v", err)
	}
}

// TestExtensionAlone gives nothing without a token, though no setting grants access.
func TestExtensionAlone(t *testing.T) {
	s, _ := must.GetBoth(readExtended(t, "listen = \":8080\"\ngreeting {\n  word  = \"a\"\n  alone = true\n}\n"))(t)
	if policy, err := s.accessPolicy(); err != nil || len(policy.Anonymous) > 0 || policy.AnyToken {
		t.Errorf("%+v, %v", policy, err)
	}
}
