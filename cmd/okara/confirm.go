// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// removal are the flags of a command that removes for good.
type removal struct{ dryRun, yes bool }

func (r *removal) add(f *pflag.FlagSet) {
	f.BoolVar(&r.dryRun, "dry-run", false, "print what would go, and change nothing")
	f.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
}

// removes reports whether what plan lists is to be removed: not with --dry-run,
// not if plan is empty, and only with --yes or the user's yes to question, for
// which plan is shown. Without a terminal to ask on it is an error.
func (a *app) removes(r removal, plan, question string) (bool, error) {
	if r.dryRun || plan == "" {
		return false, nil
	}
	if !r.yes {
		fmt.Fprintln(a.err, plan)
	}
	err := a.confirm(r.yes, "--yes", question)
	return err == nil, err
}

// confirm asks on the terminal, unless the flag is given that answers.
func (a *app) confirm(given bool, flag, question string) error {
	if given {
		return nil
	}
	in, ok := a.in.(*os.File)
	if !ok || !isTerminal(in) {
		return withHint(usageError("%s needs an answer and there is no terminal", question), "add %s to go on without being asked", flag)
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", question)
	answer, err := readLine(in)
	if err == nil && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")) {
		return nil
	}
	return errors.New("not confirmed, nothing was changed")
}
