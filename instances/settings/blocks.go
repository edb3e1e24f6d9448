// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
)

// Block has the blocks of a settings file that are about instances.
type Block struct {
	Instances   *Instances       `hcl:"instances,block"` // nil: no instances are launched here
	Executors   []Executor       `hcl:"executor,block"`
	Credentials []Credential     `hcl:"credential,block"`
	Sources     []TemplateSource `hcl:"template_source,block"`
	Quotas      []Quota          `hcl:"quota,block"`
	Notify      *Notify          `hcl:"notify,block"` // nil: no notices are sent
}

// Instances lets users launch templates here.
type Instances struct {
	Templates    string             `hcl:"templates,optional" path:"file"`                // folder of *.hcl files
	Role         string             `hcl:"role,optional"`                                 // all, portal or runner
	Advertise    string             `hcl:"advertise,optional"`                            // URL by which other replicas reach this one
	PortalKeys   []string           `hcl:"portal_session_key_files,optional" path:"file"` // secrets that portals share with servers that can lead
	ForwardPlain bool               `hcl:"forward_plain,optional"`                        // to other replicas without TLS
	Unsealed     bool               `hcl:"unsealed,optional"`                             // lead without state keys
	GroupAge     syntax.Duration    `hcl:"group_age,optional"`                            // how long an issuer's statement of groups counts
	Rate         int                `hcl:"rate,optional"`                                 // changes per minute and caller
	Runs         int                `hcl:"runs,optional"`                                 // at once
	TTL          *template.Lifetime `hcl:"ttl,block"`                                     // of templates that have none
	Quota        *OwnerQuota        `hcl:"quota,block"`                                   // of all owners
	Connection   *Connection        `hcl:"connection,block"`                              // of templates that have none
	Config       map[string]string  `hcl:"config,optional"`                               // free values for templates, no secrets
	ApprovalSelf bool               `hcl:"approval_self,optional"`                        // requesters may approve their own runs
	Prices       *Prices            `hcl:"prices,block"`                                  // of resources that plans change
	Range        hcl.Range          `hcl:",def_range"`
}

// Prices gives the hourly cost of resources.
type Prices struct {
	File     string    `hcl:"file" path:"file"` // CSV: type, attribute, value, hourly
	Currency string    `hcl:"currency"`         // a code such as EUR
	Range    hcl.Range `hcl:",def_range"`
}

// Connection says how to reach what was launched, written as in a template.
type Connection struct {
	Type    string    `hcl:"type"` // web or instructions
	URL     string    `hcl:"url,optional"`
	Message string    `hcl:"message,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

// OwnerQuota limits the live instances of an owner.
type OwnerQuota struct {
	User  int       `hcl:"user,optional"` // 0: no limit
	Group int       `hcl:"group,optional"`
	Range hcl.Range `hcl:",def_range"`
}

// Quota is a limit for some owners; the highest that matches counts.
type Quota struct {
	Name      string    `hcl:"name,label"`
	Groups    []string  `hcl:"groups,optional"` // whose members it applies to; none: everyone
	User      int       `hcl:"user,optional"`
	Group     int       `hcl:"group,optional"`
	Templates []string  `hcl:"templates,optional"` // globs; none: all
	Range     hcl.Range `hcl:",def_range"`
}

// Executor is what runs tofu; the label local means this machine.
type Executor struct {
	Name      string      `hcl:"name,label"`
	Program   string      `hcl:"program,optional" path:"program"` // tofu or terraform, by name or path
	Isolation string      `hcl:"isolation,optional"`              // sandbox, user, wrap or none
	Wrap      []string    `hcl:"wrap,optional"`                   // command that starts the tool, for isolation wrap
	Users     []int       `hcl:"users,optional"`                  // of the machine, one for each concurrent run, for isolation user
	Show      []string    `hcl:"show,optional"`                   // paths visible in a sandbox beside system files
	Memory    syntax.Size `hcl:"memory,optional"`                 // of a run
	Scratch   syntax.Size `hcl:"scratch,optional"`                // for all that a run writes; in memory in a sandbox
	Packages  syntax.Size `hcl:"packages,optional"`               // for providers that runs share
	CPUs      float64     `hcl:"cpus,optional"`                   // of a run
	Processes int         `hcl:"processes,optional"`              // of a run, threads included
	Reads     []string    `hcl:"reads,optional"`                  // globs of modules that runs may read
	Ends      bool        `hcl:"ends,optional"`                   // runs end with the server, even in the middle of work
	Range     hcl.Range   `hcl:",def_range"`
}

// Credential is put into the environment of runs whose templates name it.
type Credential struct {
	Name    string            `hcl:"name,label"`
	EnvFrom []string          `hcl:"env_from,optional"`          // variables from the environment of the server
	Files   map[string]string `hcl:"files,optional" path:"file"` // variable to file; the variable gets the path of a copy
	Command []string          `hcl:"command,optional"`           // prints NAME=VALUE lines; executed for each run
	Range   hcl.Range         `hcl:",def_range"`
}

// TemplateSource allows templates of a namespace from the registry.
type TemplateSource struct {
	Templates   string    `hcl:"templates,label"`      // glob
	Versions    string    `hcl:"versions,optional"`    // constraint
	Modules     []string  `hcl:"modules,optional"`     // globs; none: modules of their namespace
	Credentials []string  `hcl:"credentials,optional"` // that they may name; none: no credentials
	Max         int       `hcl:"max,optional"`         // maximum instances of each template
	Range       hcl.Range `hcl:",def_range"`
}

// Notify configures the receiver of notices about instances.
type Notify struct {
	URL        string    `hcl:"url"`
	SecretFile string    `hcl:"secret_file" path:"file"` // key of the signature
	Range      hcl.Range `hcl:",def_range"`
}

func (b *Block) checkRuns(o *Options, _ Beside) error {
	for i, e := range b.Executors {
		switch {
		case e.Name != template.ExecutorLocal:
			return syntax.WrongAt(e.Range, fmt.Errorf("executor %q: this server supports only local; flux-terraform and flux-helm run on a cluster", e.Name))
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
		return errors.New(`isolation = "user" and users, one for each concurrent run, must be set together`)
	case e.Processes < 0 || e.CPUs < 0:
		return errors.New("processes and cpus must not be negative")
	case (e.Isolation == "wrap") != (len(e.Wrap) > 0):
		return errors.New(`isolation = "wrap" and the command in wrap must be set together`)
	}
	if slices.ContainsFunc(e.Wrap, func(w string) bool { return strings.Contains(w, "${cache}") }) {
		return errors.New("wrap: ${cache} is no longer supported, since one run could leave a program there that another one started\nhint: omit it; ${scratch} has all that a run needs")
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
		return errors.New("env_from, files or command is required")
	}
	names := slices.AppendSeq(slices.Clone(c.EnvFrom), maps.Keys(c.Files))
	slices.Sort(names)
	for i, name := range names {
		switch {
		case !variableName().MatchString(name):
			return fmt.Errorf("%q is not the name of a variable", name)
		case ownVariables(name):
			return fmt.Errorf("variable %s cannot be used for credentials", name)
		case i > 0 && names[i-1] == name:
			return fmt.Errorf("the variable %s appears twice", name)
		}
	}
	return nil
}
