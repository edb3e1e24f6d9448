// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// runs checks the executor and the credentials of runs.
func (b *Block) runs(o *Options, _ Beside) error {
	for i, e := range b.Executors {
		switch {
		case e.Name != LocalExecutor:
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q: this server has local only; flux-terraform and flux-helm run on a cluster", e.Name))
		case i > 0:
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q appears twice", e.Name))
		}
		if err := e.check(); err != nil {
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q: %w", e.Name, err))
		}
		e.Program = cmp.Or(e.Program, "tofu")
		e.Isolation = cmp.Or(e.Isolation, "sandbox")
		e.Packages = cmp.Or(e.Packages, "5GiB")
		o.Executor = e
	}
	for i, c := range b.Credentials {
		if slices.ContainsFunc(b.Credentials[:i], func(other Credential) bool { return other.Name == c.Name }) {
			return syntax.WrongAt(c.Range, fmt.Errorf("credential %q appears twice", c.Name))
		}
		if err := c.check(); err != nil {
			return syntax.WrongAt(c.Range, fmt.Errorf("credential %q: %w", c.Name, err))
		}
	}
	return nil
}

func (e Executor) check() error {
	switch {
	case !slices.Contains([]string{"", "sandbox", "user", "wrap", "none"}, e.Isolation):
		return fmt.Errorf("the isolation %q is not sandbox, user, wrap or none", e.Isolation)
	case (e.Isolation == "user") != (len(e.Users) > 0):
		return errors.New(`isolation = "user" and users, one for each run at a time, go together`)
	case e.Processes < 0 || e.CPUs < 0:
		return errors.New("processes and cpus must not be negative")
	case (e.Isolation == "wrap") != (len(e.Wrap) > 0):
		return errors.New(`isolation = "wrap" and the command in wrap go together`)
	}
	if slices.ContainsFunc(e.Wrap, func(w string) bool { return strings.Contains(w, "${cache}") }) {
		return errors.New("wrap: ${cache} was removed, since one run could leave a program there that another one started\nhint: leave it out; ${scratch} has all that a run needs")
	}
	for name, size := range map[string]syntax.Size{"memory": e.Memory, "scratch": e.Scratch, "packages": e.Packages} {
		if size == "" {
			continue
		}
		if _, err := text.ParseSize(string(size)); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	for _, glob := range e.Reads {
		if strings.Count(glob, "/") != 2 && !strings.Contains(glob, "**") {
			return fmt.Errorf("reads: %q is not a glob over modules, NAMESPACE/NAME/SYSTEM", glob)
		}
	}
	return nil
}

var variableName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables reports whether a variable is set for every run, or would be the server's.
func ownVariables(name string) bool {
	return slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "CHECKPOINT_DISABLE", "LD_PRELOAD", "LD_LIBRARY_PATH"}, name) ||
		strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "OKARA_")
}

func (c Credential) check() error {
	if len(c.EnvFrom)+len(c.Files)+len(c.Command) == 0 {
		return errors.New("it sets nothing: env_from, files or command is needed")
	}
	names := slices.Clone(c.EnvFrom)
	for name := range c.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		switch {
		case !variableName().MatchString(name):
			return fmt.Errorf("%q is not the name of a variable", name)
		case ownVariables(name):
			return fmt.Errorf("the variable %s is not for credentials", name)
		case i > 0 && names[i-1] == name:
			return fmt.Errorf("the variable %s appears twice", name)
		}
	}
	return nil
}
