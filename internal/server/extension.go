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
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// Extension is an optional part beside the core. Each [Settings] has its own: that of settings read
// again is asked about its blocks, and never opened. Methods are called in this order.
type Extension interface {
	// Blocks returns pointers to structs of what the core does not read: see [syntax.DecodeParts].
	Blocks() []any
	// Check returns what the blocks require of the core, or what is wrong. It reads no file.
	Check(s *Settings) (Claim, error)
	// Prepare checks the blocks against all settings and the files that they name, without effect.
	Prepare(s *Settings, env Env) error
	// CheckTool starts the program that runs modules, after Prepare, and leaves nothing behind.
	CheckTool(ctx context.Context, env Env) error
	// Open opens resources before any work begins. Open and Start are called only if [Claim.On].
	Open(ctx context.Context, b Base) (Hooks, error)
	// Start returns what the extension serves, over the catalog of modules. It makes no request.
	Start(kit *service.Kit, modules *catalog.Catalog) (*Mounted, error)
}

// Claim is what the blocks of an extension require of the core.
type Claim struct {
	On         bool       // the extension has something to serve
	Alone      bool       // serve nothing else, except what operators and browsers need
	Range      hcl.Range  // of the block that requires it
	Runs       *hcl.Range // of the block that lets modules run on this machine; nil: none run
	PortalKeys []string   // files of the keys that seal sessions of portals, from which users' requests are forwarded
}

// Base is what the server provides to an extension.
type Base struct {
	Settings   *Settings
	Env        Env
	Client     *oci.Client
	Layout     addr.Layout
	Keys       []keyring.Key // sign and seal tokens and links; the first is used for new ones
	PortalKeys []keyring.Key // the keys of Claim.PortalKeys
	BuiltIn    http.Handler  // the registry behind Client if it is in this process; else nil
	Metrics    prometheus.Registerer
	Audit      *slog.Logger // for actions of the server itself; nil: not recorded
}

// Hooks are functions of an extension that the core calls to decide about requests.
type Hooks struct {
	Kept     func() access.Kept    // the part of an identity that browser sessions keep
	RunEnded func(run string) bool // reports whether a run is known to have ended
}

// Mounted is what an extension serves. Nil fields are not served.
type Mounted struct {
	API      http.Handler                                                                                          // of /api/v1/; limits and counts its requests itself
	Pages    site.Set                                                                                              // below /ui/
	RunPages func(*states.States) site.Set                                                                         // of runs of workspaces, which write states
	Runs     tfe.Runs                                                                                              // of workspaces of execution mode remote
	Forward  func(own http.Handler) http.Handler                                                                   // forwards the requests of tfe.v2 and of those pages that only one replica answers
	Uses     func(ctx context.Context, g access.Grant, module string) (seen []usage.UsedBy, others int, err error) // for [UsesService]
	Findings func() []web.Finding                                                                                  // for the doctor
	Listen   func(url, caFile string) error                                                                        // is called with the server's URL before it answers; caFile: of its own CA, or ""
	Work     func(ctx context.Context)                                                                             // background work until ctx ends, which is after the grace period of a shutdown
}

// checkExtension calls Check of the extension and keeps its claim.
func (s *Settings) checkExtension() (err error) {
	switch {
	case s.Extension != nil:
		s.Claim, err = s.Extension.Check(s)
	case s.Cloud.TFE.Remote():
		err = syntax.WrongAt(s.Cloud.TFE.Range, fmt.Errorf("runs = %q: this server cannot run plans", s.Cloud.TFE.Runs))
	}
	return err
}

// extend opens the extension, if its blocks require anything.
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
func (s *Settings) readPortalKeys() ([]keyring.Key, error) {
	var keys []keyring.Key
	for _, file := range s.Claim.PortalKeys {
		key, err := readArchiveKey(file)
		if err == nil {
			_, err = keyring.New([]keyring.Key{key})
		}
		if err != nil {
			return nil, syntax.WrongAt(s.Claim.Range, fmt.Errorf("portal_session_key_files: %s: %w", file, err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}
