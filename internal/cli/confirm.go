// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Removal holds the flags of a command that removes something permanently.
type Removal struct{ DryRun, yes bool }

// Add gives a command the flags.
func (r *Removal) Add(f *pflag.FlagSet) {
	f.BoolVar(&r.DryRun, "dry-run", false, "print what would be removed, and change nothing")
	AddYes(f, &r.yes)
}

// Removes reports whether the contents of plan are to be removed: not with --dry-run, not
// if plan is empty, and only with --yes or if the user confirms question, for which plan
// is shown. Without a terminal for the question it returns an error.
func (a *App) Removes(r Removal, plan, question string) (bool, error) {
	if r.DryRun || plan == "" {
		return false, nil
	}
	if !r.yes {
		fmt.Fprintln(a.Err, plan)
	}
	err := a.Confirm(r.yes, question)
	return err == nil, err
}

// ConfirmOverwrite asks on a terminal before something is replaced or ended, unless yes is set
// by --yes. Without a terminal it goes on, as scripts expect.
func (a *App) ConfirmOverwrite(yes bool, question string) error {
	if in, ok := a.In.(*os.File); !ok || !IsTerminal(in) {
		return nil
	}
	return a.Confirm(yes, question)
}

// AddYes gives a command the flag that answers its question.
func AddYes(f *pflag.FlagSet, yes *bool) {
	f.BoolVarP(yes, "yes", "y", false, "skip the confirmation prompt")
}

// Confirm asks on the terminal, unless yes is set by --yes.
func (a *App) Confirm(yes bool, question string) error {
	if yes || a.DryRun {
		return nil
	}
	in, ok := a.In.(*os.File)
	if !ok || !IsTerminal(in) {
		return WithHint(UsageError("cannot prompt without a terminal: %s", question), "confirm with --yes")
	}
	fmt.Fprintf(a.Err, "%s? [y/N] ", question)
	answer, err := ReadLine(in)
	if err == nil && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")) {
		return nil
	}
	return errors.New("not confirmed, nothing was changed")
}
