// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// TFEOptions configure tfe.v2, the API for `cloud` and backend "remote".
type TFEOptions struct {
	Interval time.Duration // between the states that the tools store during an apply; 0: only at the end
	Memory   int64         // for all states that are being stored, in bytes
	// Organizations are the configuration's; those in Fresh give each new workspace its repository.
	Organizations, Fresh []string
	// Remote are the organizations whose new workspaces have the execution mode remote.
	Remote []string

	RunTime time.Duration   // maximum time of a plan, and of an apply, on this server
	Sealer  artifact.Sealer // has the state keys; nil: none
	Folder  string          // remembers that records of an older version were moved; "": nothing does beside the registry
	Earlier string          // what is done with them: [earlierMove] or [earlierIgnore]; "": an administrator must say it
}

// tfeOptions returns the options of tfe.v2; nil: off.
func (c *Cloud) tfeOptions() *TFEOptions {
	if !c.TFE.isOn() {
		return nil
	}
	o := &TFEOptions{Interval: c.TFE.Interval.Value(), Memory: c.TFE.Memory.Value(), RunTime: c.TFE.RunTimeout.Value(), Earlier: c.TFE.Earlier}
	for _, org := range c.Organizations {
		o.Organizations = append(o.Organizations, org.Name)
		if org.Split != nil && *org.Split {
			o.Fresh = append(o.Fresh, org.Name)
		}
		if org.Mode == modeRemote {
			o.Remote = append(o.Remote, org.Name)
		}
	}
	return o
}

// clouds answers tfe.v2's questions about this server: rights, organizations, and addresses.
type clouds struct {
	o     *Options // with TFE
	guard *access.Guard
}

// newTFE returns the handler of /api/v2/; nil: off.
func (f *Front) newTFE() http.Handler {
	o := f.o.TFE
	if o == nil || f.o.Alone {
		return nil
	}
	c := &clouds{&f.o, f.kit.Guard}
	own := tfe.Options{
		Kit: f.kit, Keys: f.keys, Open: f.o.Stores, Allow: c.allowWorkspace, Right: c.workspaceRight, Organizations: c.organizations, Renew: c.renew, Wrote: c.noteWritten,
		Split: func(organization string) (reserved, fresh bool) {
			return slices.Contains(f.o.Layout.Split, organization), slices.Contains(o.Fresh, organization)
		},
		PublicURL: f.o.publicURL, SnapshotInterval: o.Interval, MaxState: min(o.Memory, maxTFEState), Memory: o.Memory, Now: f.o.Now,
		Sealer: o.Sealer,
		Runs:   f.mounted.Runs, RunTime: o.RunTime, Mode: func(organization string) string {
			if slices.Contains(o.Remote, organization) {
				return modeRemote
			}
			return ""
		},
	}
	if own.Now == nil {
		own.Now = time.Now
	}
	if own.Runs != nil {
		f.mover = newMover(f, own)
		own.Moved = f.mover.wait
	}
	h := tfe.New(own)
	if f.mounted.Forward != nil {
		h = f.mounted.Forward(h)
	}
	return h
}

// maxTFEState bounds a state that is stored by tfe.v2; the bound of /state/ is the same.
const maxTFEState = 512 << 20

// tfeService announces tfe.v2 as the tools ask: `cloud` for tfe.v2, backend "remote" for tfe.v2.1,
// without which OpenTofu 1.12.6 crashes, and, with local operations, state.v2; hashicorp/tfe for
// tfe.v2.2.
func (f *Front) tfeService(_ context.Context, base string) (map[string]any, error) {
	if f.tfe == nil {
		return nil, nil
	}
	at := base + "/api/v2/"
	return map[string]any{"tfe.v2": at, "tfe.v2.1": at, "tfe.v2.2": at, "state.v2": at}, nil
}

// workspaceRight returns the right to a workspace, or to any of the organization if none is named.
func (c *clouds) workspaceRight(action rights.Action, organization, workspace string) rights.Right {
	if workspace == "" {
		return rights.AnyStateRight(c.o.Layout, action, organization)
	}
	return rights.StateRight(c.o.Layout, action, organization, workspace)
}

// allowWorkspace decides about a request. One about no organization needs any right; run needs a
// right to run somewhere: the body names the workspace, whose right is checked after it was read.
func (c *clouds) allowWorkspace(r *http.Request, action rights.Action, organization, workspace string) (access.Grant, error) {
	if organization != "" {
		return c.guard.Allow(r, c.workspaceRight(action, organization, workspace))
	}
	if action == rights.Run {
		return c.guard.Allow(r, rights.Right{Action: rights.Run, Kind: addr.KindState, Address: rights.Somewhere})
	}
	if err := c.guard.AllowLogin(r); err != nil {
		return access.Grant{}, err
	}
	return c.guard.Allow(r, rights.Right{Action: rights.List, Kind: rights.AnyKind})
}

// organizations returns those in which the caller may read something.
func (c *clouds) organizations(ctx context.Context, g access.Grant) ([]string, error) {
	all := slices.DeleteFunc(slices.Clone(c.o.TFE.Organizations), func(name string) bool { return !g.May(c.workspaceRight(rights.Read, name, "")) })
	if c.o.States == nil {
		return all, nil
	}
	found, err := c.o.States.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range found {
		organization := name
		may := g.May(rights.StateRight(c.o.Layout, rights.Read, name, ""))
		if of, _, split := c.o.Layout.SplitState(name); split {
			organization = of
			may = g.May(rights.StateRight(c.o.Layout, rights.Read, name, "default"))
		} else if !may && g.May(c.workspaceRight(rights.Read, name, "")) {
			if may, err = c.readsSome(ctx, g, name); err != nil {
				return nil, err
			}
		}
		if may && !slices.Contains(all, organization) {
			all = append(all, organization)
		}
	}
	slices.Sort(all)
	return all, nil
}

// readsSome reports whether the caller may read any workspace of a state.
func (c *clouds) readsSome(ctx context.Context, g access.Grant, name string) (bool, error) {
	sum, err := c.o.States.Summary(ctx, name)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(sum.Heads, func(h statebackend.Head) bool { return g.May(c.workspaceRight(rights.Read, name, h.Workspace)) }), nil
}

// noteWritten is called with the name of a state that was stored.
func (c *clouds) noteWritten(ctx context.Context, name string) <-chan struct{} {
	if c.o.States == nil {
		return nil
	}
	return c.o.States.Wrote(ctx, name)
}

// renew makes the next list of organizations be read again.
func (c *clouds) renew() {
	if c.o.States != nil {
		c.o.States.Renew()
	}
}

// Cloud has the blocks of a file about `cloud` and backend "remote".
type Cloud struct {
	TFE           *TFE           `hcl:"tfe,block"`
	Organizations []Organization `hcl:"organization,block"`
}

// TFE configures the API for `cloud` and backend "remote".
type TFE struct {
	Enabled  *bool           `hcl:"enabled,optional"`           // serve the API; nil: yes
	Interval syntax.Duration `hcl:"snapshot_interval,optional"` // how often the tools store a state during an apply; 0: only at the end
	Memory   syntax.Size     `hcl:"memory,optional"`            // for all states that are being stored
	// Runs is the executor of plans and applies: local; "": they run where they are started.
	Runs       string          `hcl:"runs,optional"`
	RunTimeout syntax.Duration `hcl:"run_timeout,optional"` // maximum time of a plan, and of an apply
	// AllowEncryption accepts uploads with a block encryption, whose key provider runs programs.
	AllowEncryption bool `hcl:"allow_encryption,optional"`
	// Earlier is what is done with settings and variables of runs that versions up to
	// commit 6129cd06 kept among the states, where writers of states could forge them.
	Earlier string    `hcl:"earlier_settings,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

const (
	earlierMove   = "move"
	earlierIgnore = "ignore"
)

// modeRemote is the execution mode of workspaces whose plans and applies run here.
const modeRemote = "remote"

// Remote reports whether plans and applies of the tools run here.
func (t *TFE) Remote() bool { return t.isOn() && t.Runs != "" }

// isOn reports whether the API is served.
func (t *TFE) isOn() bool { return t.Enabled == nil || *t.Enabled }

// Organization has settings of a state that `cloud` and backend "remote" call an organization.
// Those without a block exist too.
type Organization struct {
	Name string `hcl:"name,label"`
	// Split gives each new workspace a separate repository, that of the state
	// NAME.WORKSPACE. Keep the attribute after it was true: it reserves those names.
	Split       *bool     `hcl:"split,optional"`
	Mode        string    `hcl:"execution_mode,optional"` // of new workspaces: local or remote
	Credentials []string  `hcl:"credentials,optional"`    // of runs on the server
	RequireLock bool      `hcl:"require_module_lock,optional"`
	Range       hcl.Range `hcl:",def_range"`
}

// minMemory is enough for one large state.
const minMemory = 64 << 20

// check refuses invalid durations and sizes.
func (t *TFE) check() error {
	if t.Interval != "0" && t.Interval != "0s" {
		if err := syntax.CheckDuration(t.Range, "snapshot_interval", t.Interval); err != nil {
			return err
		}
	}
	n, err := text.ParseSize(string(t.Memory))
	if err != nil {
		return syntax.WrongAt(t.Range, fmt.Errorf("memory %w", err))
	}
	if n < minMemory {
		return syntax.WrongAt(t.Range, fmt.Errorf("memory %q is less than 64MiB, too little for large states", string(t.Memory)))
	}
	return nil
}

// checkRuns refuses settings for runs if runs are off.
func (t *TFE) checkRuns() error {
	refused := func(format string, args ...any) error { return syntax.WrongAt(t.Range, fmt.Errorf(format, args...)) }
	switch {
	case t.Earlier != "" && t.Earlier != earlierMove && t.Earlier != earlierIgnore:
		return refused("earlier_settings = %q: must be %q or %q", t.Earlier, earlierMove, earlierIgnore)
	case t.Runs == "" && t.AllowEncryption:
		return refused("allow_encryption requires runs on the server\nhint: set runs = \"local\", or omit allow_encryption")
	case t.Runs == "":
		return nil
	case !t.isOn():
		return refused("runs = %q has no effect with enabled = false", t.Runs)
	}
	return syntax.CheckDuration(t.Range, "run_timeout", t.RunTimeout)
}

// checkAnonymous refuses rights without a token where uploaded code runs, which would have them.
func (c *Cloud) checkAnonymous(p *access.Policy) error {
	if !c.TFE.Remote() || len(p.Anonymous) == 0 {
		return nil
	}
	return syntax.WrongAt(c.TFE.Range, fmt.Errorf("runs = %q executes uploaded code, which could %s here without a token, as every caller can\n"+
		"hint: set anonymous = [], or omit runs", c.TFE.Runs, p.Anonymous[0]))
}

// split returns the organizations that reserve names for their workspaces.
func (c *Cloud) split() (names []string) {
	for _, o := range c.Organizations {
		if o.Split != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

// checkOrganizations refuses names that no state can have, and one that another block reserves.
func (c *Cloud) checkOrganizations(l addr.Layout) error {
	seen := map[string]bool{}
	for _, o := range c.Organizations {
		if _, err := l.StateRepo(o.Name); err != nil {
			return syntax.WrongAt(o.Range, err)
		}
		if seen[o.Name] {
			return syntax.WrongAt(o.Range, fmt.Errorf("duplicate organization block %q", o.Name))
		}
		seen[o.Name] = true
		if of, workspace, split := l.SplitState(o.Name); split {
			return syntax.WrongAt(o.Range, fmt.Errorf("organization %q is reserved for workspace %q of organization %q, which is or was split", o.Name, workspace, of))
		}
		switch {
		case o.Mode != "" && o.Mode != "local" && o.Mode != modeRemote:
			return syntax.WrongAt(o.Range, fmt.Errorf("invalid execution mode %q: must be local or remote", o.Mode))
		case o.Mode == modeRemote && !c.TFE.Remote():
			return syntax.WrongAt(o.Range, errors.New("this server runs no plans for the tools: the execution mode must be local\nhint: set tfe { runs = \"local\" }"))
		}
		if o.RequireLock && !c.TFE.Remote() {
			return syntax.WrongAt(o.Range, errors.New("require_module_lock is for runs on the server, and this server runs no plans for the tools\nhint: set tfe { runs = \"local\" }, or omit require_module_lock"))
		}
		if len(o.Credentials) > 0 && !c.TFE.Remote() {
			return syntax.WrongAt(o.Range, errors.New("credentials are for runs on the server, and this server runs no plans for the tools\nhint: set tfe { runs = \"local\" }, or leave out credentials; the tools use those of the machine that they are started on"))
		}
	}
	return nil
}

// checkReserved refuses rights to states reserved for workspaces, which would grant nothing.
func (c *Cloud) checkReserved(at hcl.Range, rights []rights.Scope) error {
	for _, right := range rights {
		if right.Kind != addr.KindState {
			continue
		}
		first, _, _ := strings.Cut(right.Glob, "/")
		for _, of := range c.split() {
			if rest, ok := strings.CutPrefix(first, of+"."); ok {
				return syntax.WrongAt(at, fmt.Errorf("%s: the states %s.* are workspaces of organization %q, which is or was split\nhint: write %s:state:%s/%s", right, of, of, right.Action, of, rest))
			}
		}
	}
	return nil
}
