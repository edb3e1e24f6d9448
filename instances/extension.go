// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Extension launches instances in a server.
type Extension struct {
	blocks  settings.Block
	options *settings.Options // checked; nil: nothing is launched here

	platform *platform
}

var _ server.Extension = (*Extension)(nil)

// New returns an extension whose settings have not been read yet.
func New() *Extension { return &Extension{} }

func (e *Extension) Blocks() []any { return []any{&e.blocks} }

func (e *Extension) Check(s *server.Settings) (server.Claim, error) {
	var c server.Claim
	if in := e.blocks.Instances; in != nil {
		c = server.Claim{On: true, Alone: in.Role == settings.RolePortal, Range: in.Range, PortalKeys: in.PortalKeys}
	}
	if len(e.blocks.Executors) > 0 {
		c.Runs = &e.blocks.Executors[0].Range
	}
	return c, e.checkRuns(s.Cloud.TFE)
}

// checkRuns refuses to run uploaded code that could reach more than its own files and rights.
func (e *Extension) checkRuns(t *server.TFE) error {
	if !t.Remote() {
		return nil
	}
	refused := func(format string, args ...any) error { return syntax.WrongAt(t.Range, fmt.Errorf(format, args...)) }
	switch in := e.blocks.Instances; {
	case t.Runs != template.ExecutorLocal:
		return refused("runs = %q: this server has only the local executor", t.Runs)
	case in == nil:
		return refused("runs of the tools require an instances block\nhint: add instances {} and executor \"local\" {}")
	case in.Role == settings.RolePortal:
		return refused("a portal does not execute runs\nhint: remove runs here; it belongs on servers with role = \"all\"")
	case in.Role == settings.RoleRunner:
		return refused("a server with role = \"runner\" does not serve tfe.v2\nhint: remove runs here; it belongs on servers with role = \"all\"")
	}
	for _, x := range e.blocks.Executors {
		if x.Name == template.ExecutorLocal && x.Isolation == sandbox.ModeNone {
			return syntax.WrongAt(x.Range, errors.New("with isolation = \"none\" any user who may run plans here could read the keys of this server and the data of other runs\n"+
				"hint: use isolation = \"sandbox\", \"user\" or \"wrap\", or omit runs in the tfe block"))
		}
	}
	return nil
}

func (e *Extension) Prepare(s *server.Settings, env server.Env) (err error) {
	if err := e.checkCredentials(s.Cloud.Organizations); err != nil {
		return err
	}
	e.options, err = e.blocks.Check(settings.Beside{
		Registry: s.Registry != "", StateKeys: env.States.Sealer != nil, ArchiveKeys: len(s.Archives.KeyFiles) > 0, SessionKeys: len(s.UI.Keys) > 0,
		More:   s.Depot != "" || len(s.Origins.GitHub)+len(s.Origins.Hooks)+len(s.Origins.Pulls) > 0 || s.Pass,
		Remote: s.Cloud.TFE.Remote(), Secret: func(file string) (string, error) { return env.Secret("", file) },
	})
	return err
}

// checkCredentials refuses credentials that runs of an organization cannot use.
func (e *Extension) checkCredentials(all []server.Organization) error {
	for _, o := range all {
		for _, name := range o.Credentials {
			if !slices.ContainsFunc(e.blocks.Credentials, func(c settings.Credential) bool { return c.Name == name }) {
				return syntax.WrongAt(o.Range, fmt.Errorf("no credential block %q", name))
			}
		}
	}
	return nil
}

func (e *Extension) CheckTool(ctx context.Context, env server.Env) error {
	if len(e.blocks.Executors) == 0 {
		return nil
	}
	l := &platform{o: e.options, log: env.Log, base: server.Base{Env: env}}
	if err := localexec.CheckLocal(ctx, l.localOptions()); err != nil {
		return syntax.WrongAt(e.blocks.Executors[0].Range, err)
	}
	return nil
}

func (e *Extension) Open(ctx context.Context, b server.Base) (hooks server.Hooks, err error) {
	if e.platform, err = newPlatform(ctx, e, b); err != nil {
		return hooks, err
	}
	return server.Hooks{Kept: e.platform.keptIdentity, RunEnded: e.platform.isRunOver}, nil
}

func (e *Extension) Start(kit *service.Kit, modules *catalog.Catalog) (*server.Mounted, error) {
	l := e.platform
	all, own, err := l.handler(kit, modules)
	if err != nil {
		return nil, err
	}
	m := &server.Mounted{
		API: all, Pages: pages.New(pages.Options{API: all, Mine: own}), Listen: l.listening, Work: l.serveBackground, Uses: l.findUsers,
		Findings: func() []web.Finding { return ledgerFindings(l.ledger.Status()) },
	}
	if l.base.Settings.Cloud.TFE.Remote() {
		runs := newRemoteRuns(l)
		m.Runs = runs
		m.RunPages = func(s *states.States) site.Set {
			return pages.NewRuns(pages.RunsOptions{Kit: kit, Runs: runs, States: s})
		}
		m.Forward, err = l.forwardRuns(kit)
	}
	return m, err
}

// ledgerFindings reports the leader of the instances, and what keeps them from expiring.
func ledgerFindings(s ledger.Status) []web.Finding {
	f := web.Finding{About: "Instances", Meaning: "Instances are recorded, and expire on time."}
	switch {
	case s.Leading:
		f.State = "this replica is the leader"
	case s.Leader != "":
		f.State = "led by " + s.Leader
	case s.Refused != nil:
		f.Verdict = web.Act
		f.State = "no leader: " + s.Refused.Error()
		f.Meaning = "Nothing is launched, changed or ended."
		f.Do = "Fix the cause shown."
	default:
		f.Verdict = web.Look
		f.State = "no leader is known"
		f.Meaning = "A leader should be elected within 30 seconds."
		f.Do = "Check again then. If there is still none, check the logs of the replicas."
	}
	all := []web.Finding{f}
	if s.Held != "" {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Clock of instances", State: s.Held, Meaning: "No instance expires until the clock is trusted.",
			Do: "Correct the clock of the registry.",
		})
	}
	if n := len(s.Aside); n > 0 {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Records of instances", State: fmt.Sprintf("%d are set aside", n), Meaning: "They violate a rule of this version, so they are ignored.",
			Do: "They return once they are valid again, for example after an update of okara.",
		})
	}
	return all
}
