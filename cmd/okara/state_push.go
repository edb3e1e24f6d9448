// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// maxState bounds a state in a file, in bytes.
const maxState = 512 << 20

func newStatePush(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "push [REPOSITORY] FILE",
		Short: "Store a state file as the new current version",
		Long: `Store a state file ("-" is stdin) as the new current version, under the lock. Its
lineage must be that of the current state and its serial must be higher; --force skips
this check. Pushing the same state again changes nothing.

With a key, the new version is encrypted, even after an unencrypted one, which no other
command accepts: check that the file is the expected state.`,
		Example: "  okara state push registry.example.com/state/shop terraform.tfstate -w prod",
		Args:    cobra.RangeArgs(1, 2),
		RunE: f.withNamedState(reg, 2, &ws, func(cmd *cobra.Command, args []string) error {
			if err := checkDestination(reg, args[0], ws); err != nil {
				return err
			}
			state, err := readState(reg.In, args[1])
			if err != nil {
				return err
			}
			if err := reg.ConfirmOverwrite(yes, fmt.Sprintf("make %s the current state of workspace %q in %s", args[1], ws, args[0])); err != nil {
				return err
			}
			f.unsealed = true // the only way from an unencrypted state to a sealed one
			s, err := f.openStore(reg, args[0])
			if err != nil {
				return err
			}
			var v statebackend.Version
			err = s.Hold(cmd.Context(), ws, statebackend.NewLockInfo(pushOperation(force), reg.UserAgent()), func(l *statebackend.Lock) error {
				ctx := cmd.Context()
				if record := usage.RecordPush(reg.Getenv); record != nil && !force {
					ctx = statebackend.WithUsage(ctx, record)
				}
				v, err = l.Push(ctx, state, force)
				return err
			})
			if errors.Is(err, statebackend.ErrStale) {
				return cli.WithHint(err, "compare with `okara state show %s -w %s`; use --force to store it anyway", args[0], ws)
			}
			if err != nil {
				return err
			}
			return reg.PrintResult(v, fmt.Sprintf("workspace %s: version %d, serial %d", ws, v.N, v.Serial))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().BoolVar(&force, "force", false, "do not check lineage and serial")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}

// checkDestination refuses a repository of the named registry that is for something else than states,
// and warns of a workspace that the tools, by their own rule, cannot select.
func checkDestination(reg *cli.Registries, reference, ws string) error {
	if host, prefix, err := addr.SplitRegistry(reg.Named()); err == nil {
		layout := addr.Layout{Prefix: prefix}
		name, below := strings.CutPrefix(reg.Reference(reference), host+"/")
		if it, ok := layout.Parse(name); below && ok && (it.Published() || it.Kind == addr.KindCatalog) {
			return cli.WithHint(cli.UsageError("%s is not for states", reference), "use a repository of their own, such as HOST/state/NAME, since rights go by it")
		}
	}
	if url.PathEscape(ws) != ws {
		reg.Note("warning: tofu and terraform cannot select workspace %q, only names of letters, digits, \"-\", \"_\" and \".\"", ws)
	}
	return nil
}

func pushOperation(force bool) string {
	if force {
		return "forced push"
	}
	return "push"
}

func readState(in io.Reader, path string) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	var b bytes.Buffer
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= maxState {
			b.Grow(int(info.Size()) + bytes.MinRead) // then ReadFrom never reallocates
		}
	}
	if _, err := b.ReadFrom(io.LimitReader(in, maxState+1)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if b.Len() > maxState {
		return nil, fmt.Errorf("%s is larger than %s: %w", path, text.Size(maxState), oci.ErrTooLarge)
	}
	if err := statebackend.CheckState(b.Bytes()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b.Bytes(), nil
}
