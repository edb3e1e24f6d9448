// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Cloud has the blocks of a file about what `cloud` and backend "remote" speak.
type Cloud struct {
	TFE           *TFE           `hcl:"tfe,block"`
	Organizations []Organization `hcl:"organization,block"`
}

// TFE says how `cloud` and backend "remote" of the tools are answered.
type TFE struct {
	Enabled  *bool           `hcl:"enabled,optional"`           // nil: they are
	Interval syntax.Duration `hcl:"snapshot_interval,optional"` // how often the tools store a state while they apply; 0: at the end only
	Memory   syntax.Size     `hcl:"memory,optional"`            // of all states that are being stored
	// Runs is the executor of plans and applies of the tools: local; "": they run where
	// they are started.
	Runs       string          `hcl:"runs,optional"`
	RunTimeout syntax.Duration `hcl:"run_timeout,optional"` // of a plan, and of an apply
	// AllowEncryption lets what is uploaded have a block encryption, whose key provider
	// runs programs.
	AllowEncryption bool      `hcl:"allow_encryption,optional"`
	Range           hcl.Range `hcl:",def_range"`
}

// modeRemote is the execution mode of workspaces whose plans and applies run here.
const modeRemote = "remote"

// Remote reports whether plans and applies of the tools run here.
func (t *TFE) Remote() bool { return t.on() && t.Runs != "" }

// on reports whether they are answered at all.
func (t *TFE) on() bool { return t.Enabled == nil || *t.Enabled }

// Organization is more than its name says of a state that `cloud` and backend
// "remote" call an organization; one without a block exists just as well.
type Organization struct {
	Name string `hcl:"name,label"`
	// Split gives each new workspace a repository of its own, that of the state
	// NAME.WORKSPACE. Once it was true the attribute stays: it reserves those names.
	Split       *bool     `hcl:"split,optional"`
	Mode        string    `hcl:"execution_mode,optional"` // of new workspaces: local
	Credentials []string  `hcl:"credentials,optional"`    // of runs on the server
	Range       hcl.Range `hcl:",def_range"`
}

// leastMemory is room for a state that is large already.
const leastMemory = 64 << 20

// check refuses a length or size that is none.
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
	if n < leastMemory {
		return syntax.WrongAt(t.Range, fmt.Errorf("memory %q is less than 64MiB, in which large states have no room", string(t.Memory)))
	}
	return nil
}

// checkRuns refuses what is said of runs where there are none.
func (t *TFE) checkRuns() error {
	refused := func(format string, args ...any) error { return syntax.WrongAt(t.Range, fmt.Errorf(format, args...)) }
	switch {
	case t.Runs == "" && t.AllowEncryption:
		return refused("allow_encryption is of runs on the server, and there are none\nhint: set runs = \"local\", or leave out allow_encryption")
	case t.Runs == "":
		return nil
	case !t.on():
		return refused("runs = %q means nothing with enabled = false", t.Runs)
	}
	return syntax.CheckDuration(t.Range, "run_timeout", t.RunTimeout)
}

// checkAnonymous refuses rights of everybody where configurations run that were
// uploaded: their code would have them too.
func (c *Cloud) checkAnonymous(p *access.Policy) error {
	if !c.TFE.Remote() || len(p.Anonymous) == 0 {
		return nil
	}
	return syntax.WrongAt(c.TFE.Range, fmt.Errorf("runs = %q runs code that is uploaded, and everybody may %s here without a token: so may that code\n"+
		"hint: set anonymous = [], or leave out runs", c.TFE.Runs, p.Anonymous[0]))
}

// split are the organizations that reserve names for their workspaces.
func (c *Cloud) split() (names []string) {
	for _, o := range c.Organizations {
		if o.Split != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

// checkOrganizations refuses names that no state can have, and two blocks of which
// one reserves the name of the other: a state has one address.
func (c *Cloud) checkOrganizations(l addr.Layout) error {
	seen := map[string]bool{}
	for _, o := range c.Organizations {
		if _, err := l.StateRepo(o.Name); err != nil {
			return syntax.WrongAt(o.Range, err)
		}
		if seen[o.Name] {
			return syntax.WrongAt(o.Range, fmt.Errorf("a second block organization %q", o.Name))
		}
		seen[o.Name] = true
		if of, workspace, split := l.SplitState(o.Name); split {
			return syntax.WrongAt(o.Range, fmt.Errorf("organization %q is reserved for workspace %q of organization %q, which is or was split", o.Name, workspace, of))
		}
		switch {
		case o.Mode != "" && o.Mode != "local" && o.Mode != modeRemote:
			return syntax.WrongAt(o.Range, fmt.Errorf("the execution mode %q is not local or remote", o.Mode))
		case o.Mode == modeRemote && !c.TFE.Remote():
			return syntax.WrongAt(o.Range, errors.New("this server runs no plans for the tools, so the execution mode can only be local\nhint: set tfe { runs = \"local\" }"))
		}
		if len(o.Credentials) > 0 && !c.TFE.Remote() {
			return syntax.WrongAt(o.Range, errors.New("credentials are for runs on the server, and this server runs no plans for the tools\nhint: set tfe { runs = \"local\" }, or leave out credentials; the tools use those of the machine that they are started on"))
		}
	}
	return nil
}

// checkReserved refuses rights to the states that an organization reserves for its
// workspaces: they open nothing, and whoever wrote them means something else.
func (c *Cloud) checkReserved(at hcl.Range, rights []access.Scope) error {
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
