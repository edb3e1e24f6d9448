// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const stateLong = `Read and repair the states of a backend "oci" block without OpenTofu or Terraform.
REPOSITORY is the repository of the block, HOST[:PORT]/PATH. In the folder of a root
module with such a block, most commands do not require it: repository, keys and
workspace are then those that the tool uses there.

States that okara encrypted require their keys: --key for each reference as in the
encryption blocks, or OKARA_STATE_KEYS with the references separated by spaces;
--identity or OKARA_STATE_IDENTITIES for age identity files. They can only be decrypted
in the repository they were encrypted for. For a copy, specify the original with
--primary-repository or OKARA_STATE_PRIMARY.`

type stateFlags struct {
	cli.KeyFlags
	unsealed bool // set by commands that seal unencrypted states
	keep     int  // set by a command that prunes: number of versions; 0: all

	block *backendblock.Backend // of the folder, if no repository is named; its keys are in the fields above
	next  *envelope.Envelope    // set by rekey: the new keys for sealing
}

func newState(reg *cli.Registries) *cobra.Command {
	var f stateFlags
	cmd := cli.Parent("state", "state", "List, read, compare, repair and move states")
	cmd.Long = stateLong
	cmd.PersistentFlags().StringArrayVar(&f.Keys, "key", nil, "key `REFERENCE` that decrypts and encrypts states; repeatable (OKARA_STATE_KEYS)")
	cmd.PersistentFlags().StringArrayVar(&f.Identities, "identity", nil, "age identity `FILE` that decrypts states; repeatable (OKARA_STATE_IDENTITIES)")
	cmd.PersistentFlags().StringVar(&f.Primary, "primary-repository", "", "original `REPOSITORY` of this copy, to decrypt states encrypted there (OKARA_STATE_PRIMARY)")
	changes := []*cobra.Command{newStateUnlock(reg, &f), newStatePush(reg, &f), newStateRestore(reg, &f), newStateDelete(reg, &f), newStateReplicate(reg, &f), newStateImport(reg, &f), newStateRekey(reg, &f)}
	reg.AddDryRun(changes...)
	cmd.AddCommand(append(changes, newStatePrune(reg, &f), newStateList(reg, &f), newStateShow(reg, &f), newStateUses(reg, &f), newStatePull(reg, &f), newStateHistory(reg, &f),
		newStateLocks(reg, &f), newStateDiff(reg, &f), newStateKeys(reg, &f), newStateDecrypt(reg.App, &f))...)
	return cmd
}

func (f *stateFlags) storeOptions(a *cli.App) (statebackend.Options, error) {
	o, err := f.StateOptions(a)
	if err != nil {
		return o, err
	}
	o.Unsealed = f.unsealed
	o.MaxVersions = f.keep
	if f.next != nil {
		o.Sealer = rekeyer{o.Sealer, f.next}
	}
	return o, nil
}

func (f *stateFlags) openStore(reg *cli.Registries, reference string) (*statebackend.Store, error) {
	o, err := f.storeOptions(reg.App)
	if err != nil {
		return nil, err
	}
	if f.block != nil && reference == f.block.Repository {
		return f.blockStore(reg, o)
	}
	r, err := reg.OpenRepo(reference)
	if err != nil {
		return nil, err
	}
	return statebackend.New(r, o), nil
}

func (f *stateFlags) workspaceFlag(reg *cli.Registries, cmd *cobra.Command, ws *string) {
	cmd.Flags().StringVarP(ws, "workspace", "w", "default", "`NAME` of the workspace")
	complete := func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return f.completeWorkspace(reg, cmd, args, toComplete)
	}
	_ = cmd.RegisterFlagCompletionFunc("workspace", complete) // fails only for an unknown flag
}

// maxCompletions bounds the number of completions; each costs a request.
const maxCompletions = 50

func (f *stateFlags) completeWorkspace(reg *cli.Registries, cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 || isVersion(args[0]) {
		c, err := bridge.Read(".", bridge.ReadOptions{Getenv: reg.Getenv})
		if err != nil || !c.Declared {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		f.useBlock(reg.App, c.Backend)
		args = []string{f.block.Repository}
	}
	s, err := f.openStore(reg, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	var names []string
	for name, err := range s.Workspaces().All(ctx) {
		if err != nil || len(names) == maxCompletions {
			break
		}
		if strings.HasPrefix(name, toComplete) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

type lockJSON struct {
	Workspace string    `json:"workspace"`
	ID        string    `json:"id"`
	Operation string    `json:"operation,omitempty"`
	Info      string    `json:"info,omitempty"`
	Who       string    `json:"who,omitempty"`
	Version   string    `json:"version,omitempty"`
	Created   time.Time `json:"created"`
	Fence     int64     `json:"fence,omitempty"`
	Tag       string    `json:"tag,omitempty"`
	// Unreadable: the tag is listed, but reading it returns not found.
	Unreadable bool `json:"unreadable,omitempty"`
	// Server: a server holds the lock for itself and renews it; it ends without its holder.
	Server bool `json:"server,omitempty"`

	age time.Duration
}

func toLockJSON(h statebackend.Held) lockJSON {
	return lockJSON{
		Workspace: h.Workspace, ID: h.Info.ID, Operation: h.Info.Operation, Info: h.Info.Info, Who: h.Info.Who,
		Version: h.Info.Version, Created: h.Info.Created, Fence: h.Fence, Tag: h.Tag, Unreadable: h.Unreadable, Server: h.IsOfServer(), age: h.Age,
	}
}

func noState(err error, reference, ws string) error {
	if e, ok := errors.AsType[*statebackend.VersionError](err); ok {
		return cli.WithHint(e, "`okara state history %s -w %s` shows the versions", reference, ws)
	}
	if !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	return cli.WithHint(fmt.Errorf("workspace %q of %s has no state: %w", ws, reference, oci.ErrNotFound),
		"`okara state list %s` shows the workspaces", reference)
}

// noStates says that a repository has none.
func noStates(reference string) error {
	host, _, _ := strings.Cut(reference, "/")
	return cli.WithHint(fmt.Errorf("no states in %s: %w", reference, oci.ErrNotFound), "`okara state list %s --all` shows the repositories with states", host)
}

// requireOutput refuses --json without a file for the state.
func requireOutput(a *cli.App, file string) error {
	if a.JSON && file == "" {
		return cli.UsageError("--json requires --output: stdout cannot hold both documents")
	}
	return nil
}

// writeState writes a state to the file, or without one to stdout, which then has nothing else.
func writeState(a *cli.App, file string, state []byte, v statebackend.Version) error {
	if file == "" {
		_, err := a.Out.Write(state)
		return err
	}
	if err := files.WriteOutput(file, state, 0o600); err != nil {
		return err
	}
	return a.PrintResult(v, fmt.Sprintf("version %d, serial %d: %s", v.N, v.Serial, file))
}
