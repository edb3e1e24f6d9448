// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

type rekeyed struct {
	Repository string   `json:"repository"`
	Workspace  string   `json:"workspace"`
	Keys       []string `json:"keys"`
	Versions   []int64  `json:"versions"`
	Variables  int      `json:"variables,omitempty"` // of all workspaces, and variable sets
}

const rekeyLong = `Encrypt the newest version of a state with other keys, under the lock, or with
--all-versions every version and the variables that servers store with them. Numbers and
contents do not change. --key, OKARA_STATE_KEYS or the backend block specify the current
keys, --new-key all the keys that replace them.

Versions that already have these keys are skipped, so an interrupted run can be repeated.
What the old keys decrypt is deleted, if the registry allows it; replicas and backups
keep their copies. Consider everything that a lost key could decrypt as disclosed: rotate
the secrets in it.`

func newStateRekey(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var keys []string
	var all bool
	cmd := &cobra.Command{
		Use:   "rekey [REPOSITORY] --new-key REFERENCE",
		Short: "Encrypt versions with other keys",
		Long:  rekeyLong,
		Example: `  okara state rekey registry.example.com/state/shop -w prod --key old.key --new-key new.key
  okara state rekey --new-key awskms://alias/state --all-versions`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.withNamedState(reg, 1, &ws, func(cmd *cobra.Command, args []string) error {
			if len(keys) == 0 {
				return cli.UsageError("--new-key is required")
			}
			next, err := envelope.New(envelope.Options{Keys: keys})
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			f.next = next
			s, err := f.openStore(reg, args[0])
			if err != nil {
				return err
			}
			out := rekeyed{Repository: args[0], Workspace: ws, Keys: next.SealsFor(), Versions: []int64{}}
			err = s.Hold(cmd.Context(), ws, statebackend.NewLockInfo("rekey", reg.UserAgent()), func(l *statebackend.Lock) error {
				return rekeyState(cmd.Context(), reg.App, s, l, &out, all)
			})
			if err == nil && all {
				out.Variables, err = rekeyVariables(cmd.Context(), reg, f, s, out.Keys)
			}
			if err != nil {
				return noState(err, args[0], ws)
			}
			return reg.PrintResult(out, fmt.Sprintf("workspace %s: %s encrypted with %s", ws, text.Plural(len(out.Versions), "version"), strings.Join(out.Keys, ", ")))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().StringArrayVar(&keys, "new-key", nil, "key `REFERENCE` that replaces the current keys; repeatable")
	cmd.Flags().BoolVar(&all, "all-versions", false, "every version, not only the newest")
	return cmd
}

// rekeyState seals versions, newest first, that are sealed with different keys.
func rekeyState(ctx context.Context, a *cli.App, s *statebackend.Store, l *statebackend.Lock, out *rekeyed, all bool) error {
	for v, err := range s.History(ctx, out.Workspace) {
		if err != nil {
			return err
		}
		if all && !v.Encrypted {
			a.Note("version %d is not encrypted by okara, skipped", v.N)
			continue
		}
		if !slices.Equal(envelope.KeyIDs(v.Envelope), out.Keys) {
			if err := l.Rekey(ctx, v.N); err != nil {
				return err
			}
			out.Versions = append(out.Versions, v.N)
		}
		if !all {
			break
		}
	}
	return nil
}

// rekeyVariables seals the variables beside a state again, also those of versions that
// kept them in its repository.
func rekeyVariables(ctx context.Context, reg *cli.Registries, f *stateFlags, s *statebackend.Store, keys []string) (int, error) {
	o, err := f.storeOptions(reg.App)
	if err != nil {
		return 0, err
	}
	book, err := variables.Open(s.Repo(), o.Sealer, time.Now, nil)
	if err != nil {
		return 0, err
	}
	all := 0
	for _, b := range []variables.Book{book, book.Former()} {
		l, err := b.List(ctx)
		if errors.Is(err, oci.ErrDenied) {
			reg.Note("the variables of runs were not encrypted again: this account may not read them\nhint: ask an administrator of the server to repeat the command")
			continue
		}
		if err != nil {
			return all, err
		}
		n, err := l.Reseal(ctx, "rekey", func(seal map[string]string) bool { return slices.Equal(envelope.KeyIDs(seal), keys) })
		if all += n; err != nil {
			return all, err
		}
	}
	return all, nil
}

// rekeyer opens with the current keys and seals with the next ones, which can also open what
// they have sealed already.
type rekeyer struct {
	statebackend.Sealer // nil: there was no key
	next                *envelope.Envelope
}

func (r rekeyer) Seal(ctx context.Context, plain, aad []byte) ([]byte, map[string]string, error) {
	return r.next.Seal(ctx, plain, aad)
}

func (r rekeyer) Open(ctx context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error) {
	plain, err := r.next.Open(ctx, sealed, ann, aad)
	if r.Sealer != nil && errors.Is(err, envelope.ErrKey) {
		return r.Sealer.Open(ctx, sealed, ann, aad)
	}
	return plain, err
}
