// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/hashicorp/hcl/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// Extension is what a server has beside the core, which knows of it no more than this.
// Settings have one of their own: those that are read again ask theirs for what its
// blocks say, and never open it. Its methods are called in the order of this list.
type Extension interface {
	// Blocks are pointers to structs for what the core leaves of a file, as
	// [syntax.DecodeParts] has it.
	Blocks() []any
	// Check returns what the blocks want of the core, or what is wrong with them by
	// themselves and beside those of the core, as the file has them. It reads no file.
	Check(s *Settings) (Claim, error)
	// Prepare returns what is wrong with the blocks beside all settings, and with the
	// files that they name. It asks nobody, and makes nothing.
	Prepare(s *Settings, env Env) error
	// Open opens what it works with. Nothing works yet. Unless it is [Claim.On], nothing
	// of this and of what follows is called.
	Open(ctx context.Context, b Base) (Hooks, error)
	// Start returns what is served, over the catalog of modules. It makes no request.
	Start(kit *service.Kit, modules *catalog.Catalog) (*Mounted, error)
}

// Claim is what the blocks of an extension want of the core.
type Claim struct {
	On         bool       // there is something to serve
	Alone      bool       // and nothing beside it, but what operators and browsers need
	Range      hcl.Range  // of the block that says so
	Runs       *hcl.Range // of the block by which modules run on this machine; nil: none do
	PortalKeys []string   // files of keys: with one of their sessions come people by servers that serve it alone
}

// Base is what an extension stands on.
type Base struct {
	Settings   *Settings
	Env        Env
	Client     *oci.Client
	Layout     addr.Layout
	Keys       []access.Key // sign and seal what is given away; the first is used for what is new
	PortalKeys []access.Key // those of the claim
	BuiltIn    http.Handler // the registry behind Client, where it is in this process; else nil
	Metrics    prometheus.Registerer
	Audit      *slog.Logger // what the server does by itself; nil: nobody hears
}

// Hooks are what the core asks an extension while it decides about requests.
type Hooks struct {
	Kept     func() access.Kept    // what the sessions of browsers keep of an identity
	RunEnded func(run string) bool // reports whether a run is known to have ended
}

// Mounted is what an extension serves. What is nil is not there.
type Mounted struct {
	API      http.Handler                        // of /api/v1/; it limits and counts its requests itself
	Pages    site.Set                            // below /ui/
	RunPages func(*states.States) site.Set       // of runs of workspaces, which write states
	Runs     tfe.Runs                            // of workspaces of execution mode remote
	Forward  func(own http.Handler) http.Handler // hands on what only one replica answers of tfe.v2 and of those pages
	Findings func() []web.Finding                // how it is, for the doctor
	Listen   func(url, caFile string) error      // hears where the server is, before it answers; caFile: of its own CA, "" without one
	Work     func(ctx context.Context)           // what no request waits for, until ctx ends: while requests come after a signal it goes on
}

// checkExtension asks the extension what its blocks want.
func (s *Settings) checkExtension() (err error) {
	switch {
	case s.Extension != nil:
		s.Claim, err = s.Extension.Check(s)
	case s.Cloud.TFE.Remote():
		err = syntax.WrongAt(s.Cloud.TFE.Range, fmt.Errorf("runs = %q: nothing runs plans here", s.Cloud.TFE.Runs))
	}
	return err
}

// extension opens what the core is extended by; nothing where its blocks want nothing.
func (o *Options) extend(ctx context.Context, s *Settings, back backend, env Env) error {
	if !o.claim.On {
		return nil
	}
	hooks, err := s.Extension.Open(ctx, Base{
		Settings: s, Env: env, Client: back.client, Layout: back.layout, Keys: o.Keys, PortalKeys: o.portalKeys, BuiltIn: back.embedded,
		Metrics: o.Metrics.all, Audit: o.Audit,
	})
	if err != nil {
		return err
	}
	if o.Sessions != nil {
		o.Sessions.Keep = hooks.Kept
	}
	o.RunOver = hooks.RunEnded
	o.Alone = o.claim.Alone
	o.Start = s.Extension.Start
	return nil
}

// readPortalKeys reads the secrets that portals share with this server.
func (s *Settings) readPortalKeys() ([]access.Key, error) {
	var keys []access.Key
	for _, file := range s.Claim.PortalKeys {
		key, err := readArchiveKey(file)
		if err == nil {
			_, err = access.NewKeyring([]access.Key{key})
		}
		if err != nil {
			return nil, syntax.WrongAt(s.Claim.Range, fmt.Errorf("portal_session_key_files: %s: %w", file, err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}
