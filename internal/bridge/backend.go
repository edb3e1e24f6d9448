// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/backendblock"
)

// Config is the configuration that okara read from one root module.
type Config struct {
	Dir      string
	Declared bool // there is a backend "oci" block, and Backend is it
	Backend  backendblock.Backend
	// Recorded is the last init's repository, from which the tool migrates without a block, or "".
	Recorded string
	Remote   []RemoteState
	// Settings are the values of -backend-config, now and at earlier inits.
	Settings []Setting

	evaluated string // digest of the values that the tool evaluated in the block, "" if it evaluated none
}

// Used reports whether a run in this module needs okara at all.
func (c Config) Used() bool { return c.Declared || c.Recorded != "" || len(c.Remote) > 0 }

// announceStart returns the announcement of the run in this module.
func (c Config) announceStart(getenv func(string) string) Start {
	s := Start{Workspace: SelectedWorkspace(c.Dir, getenv)}
	if r := c.Repositories(); len(r) > 0 {
		s.Repository = c.For(r[0]).ForWorkspace(s.Workspace).Repository
	}
	file := filepath.Join(c.Dir, "errored.tfstate")
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
		s.Errored = file
	}
	return s
}

// Repositories returns the repositories whose workspaces the tool may list.
func (c Config) Repositories() []string {
	var r []string
	if c.Declared {
		r = append(r, c.Backend.Repository)
	}
	if c.Recorded != "" && (!c.Declared || c.Recorded != c.Backend.Repository) {
		r = append(r, c.Recorded)
	}
	return r
}

// For returns the settings of a repository: of the block that names it, else the backend's.
func (c Config) For(repository string) backendblock.Backend {
	for _, r := range c.Remote {
		if r.Backend.Repository == repository && (!c.Declared || c.Backend.Repository != repository) {
			return r.Backend
		}
	}
	b := c.Backend
	b.Repository = repository
	return b
}

// ReadOptions are the inputs to the configuration besides its files.
type ReadOptions struct {
	// Getenv reads TF_BACKEND_OCI_<NAME> and TF_DATA_DIR; required.
	Getenv func(string) string
	// BackendConfig has the values of -backend-config; they override the block.
	BackendConfig []string
	// Terraform reads no .tofu files.
	Terraform bool
	// evaluate returns arguments that refer to variables or locals; nil: no tool can.
	evaluate func(module) (map[string]cty.Value, error)
	// Reconfigure forgets earlier -backend-config and, with a block, the last init's repository.
	Reconfigure bool
}

// Read finds dir's backend "oci" and each terraform_remote_state of one. Errors name the line.
func Read(dir string, o ReadOptions) (Config, error) {
	c := Config{Dir: dir}
	rec, err := readRecord(backendblock.DataDir(dir, o.Getenv))
	if err != nil {
		return c, err
	}
	c.Recorded = rec.repository
	if o.Reconfigure {
		rec.settings = nil
	}
	m, err := loadModule(dir, !o.Terraform)
	if err != nil {
		return c, err
	}
	if m.backend != nil {
		c.Declared = true
		flags, err := parseBackendConfig(o.BackendConfig, dir)
		if err != nil {
			return c, err
		}
		c.Settings = mergeSettings(flags, rec.settings)
		if o.evaluate == nil {
			o.evaluate = refuseReferences
		}
		values, err := o.evaluate(m)
		if errors.Is(err, errLeftOut) {
			return Config{Dir: dir}, nil
		}
		if err != nil {
			return c, err
		}
		if c.evaluated, err = digestOf(values); err != nil {
			return c, err
		}
		if c.Backend, err = decodeBackend(m.backend, dir, flags, values, rec, o.Getenv); err != nil {
			return c, err
		}
		if o.Reconfigure {
			c.Recorded = "" // the tool migrates nothing, and the old registry may no longer exist
		}
	}
	for _, block := range m.remote {
		r, ok, err := decodeRemote(block, m.sources, dir, o.Getenv)
		if err != nil {
			return c, err
		}
		if ok {
			c.Remote = append(c.Remote, r)
		}
	}
	return c, nil
}

// decodeBackend merges arguments; the first wins of flags, block, earlier init, environment.
func decodeBackend(block *hcl.Block, dir string, flags []Setting, values map[string]cty.Value, rec record, getenv func(string) string) (backendblock.Backend, error) {
	a := backendblock.New(dir)
	for _, s := range flags {
		if err := s.applySetting(a); err != nil {
			return a.Partial(), err
		}
	}
	if err := readBlock(a, block.Body, values); err != nil {
		return a.Partial(), err
	}
	for _, s := range rec.settings {
		if err := s.applySetting(a); err != nil {
			return a.Partial(), err
		}
	}
	if err := a.Environment(getenv); err != nil {
		return a.Partial(), err
	}
	if a.Repository() == "" && rec.repository != "" {
		if err := a.Setting("repository", rec.repository); err != nil {
			return a.Partial(), err
		}
	}
	b, err := a.Backend()
	if err != nil {
		return b, atPosition(block.DefRange, err)
	}
	return b, nil
}

func mergeSettings(a, b []Setting) []Setting {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.ContainsFunc(a, func(x Setting) bool { return x.Name == s.Name }) {
			all = append(all, s)
		}
	}
	return all
}

// atPosition prefixes an error with file and line, unless it has them.
func atPosition(r hcl.Range, err error) error {
	if _, ok := errors.AsType[*positionError](err); ok {
		return err
	}
	return &positionError{file: r.Filename, line: r.Start.Line, err: err}
}

type positionError struct {
	file string
	line int
	err  error
}

func (e *positionError) Error() string {
	return fmt.Sprintf("%s:%d: %v", filepath.ToSlash(e.file), e.line, e.err)
}

func (e *positionError) Unwrap() error { return e.err }

func diagnosticsError(diags hcl.Diagnostics) error {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		err := errors.New(strings.TrimSuffix(lowerFirst(d.Summary)+": "+d.Detail, "."))
		if d.Subject == nil {
			return err
		}
		return atPosition(*d.Subject, err)
	}
	return nil
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
