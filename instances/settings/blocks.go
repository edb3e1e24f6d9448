// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// Block has the blocks of a file that are about instances.
type Block struct {
	Instances   *Instances       `hcl:"instances,block"` // nil: none are launched here
	Executors   []Executor       `hcl:"executor,block"`
	Credentials []Credential     `hcl:"credential,block"`
	Sources     []TemplateSource `hcl:"template_source,block"`
	Quotas      []Quota          `hcl:"quota,block"`
	Notify      *Notify          `hcl:"notify,block"` // nil: nobody is notified
}

// Instances says that users may launch templates here.
type Instances struct {
	Templates    string            `hcl:"templates,optional" path:"file"`                // folder of files *.hcl
	Role         string            `hcl:"role,optional"`                                 // all, portal or runner
	Advertise    string            `hcl:"advertise,optional"`                            // URL by which other replicas reach this one
	PortalKeys   []string          `hcl:"portal_session_key_files,optional" path:"file"` // secrets that portals share with those who lead
	ForwardPlain bool              `hcl:"forward_plain,optional"`                        // to other replicas without TLS
	Unsealed     bool              `hcl:"unsealed,optional"`                             // lead without state keys
	GroupAge     syntax.Duration   `hcl:"group_age,optional"`                            // how long an issuer's word on groups counts
	Rate         int               `hcl:"rate,optional"`                                 // changes a minute and caller
	Runs         int               `hcl:"runs,optional"`                                 // at once
	TTL          *TTL              `hcl:"ttl,block"`                                     // of templates that have none
	Quota        *OwnerQuota       `hcl:"quota,block"`                                   // of everybody
	Connection   *Connection       `hcl:"connection,block"`                              // of templates that have none
	Config       map[string]string `hcl:"config,optional"`                               // free values for templates, no secrets
	ApprovalSelf bool              `hcl:"approval_self,optional"`                        // who asked for a run may approve it
	Prices       *Prices           `hcl:"prices,block"`                                  // of what plans change
	Range        hcl.Range         `hcl:",def_range"`
}

// Prices is what resources cost an hour.
type Prices struct {
	File     string    `hcl:"file" path:"file"` // CSV: type, attribute, value, hourly
	Currency string    `hcl:"currency"`         // a code such as EUR
	Range    hcl.Range `hcl:",def_range"`
}

// TTL is a lifetime; it is written as in a template.
type TTL struct {
	Default  string          `hcl:"default,optional"`
	Max      syntax.Duration `hcl:"max,optional"`
	Extend   syntax.Duration `hcl:"extend,optional"`
	Extends  int             `hcl:"extends,optional"`
	Failed   syntax.Duration `hcl:"failed,optional"`
	OnExpire string          `hcl:"on_expire,optional"` // destroy or keep
	Range    hcl.Range       `hcl:",def_range"`
}

// Connection says how to reach what was launched; it is written as in a template.
type Connection struct {
	Type    string    `hcl:"type"` // web or instructions
	URL     string    `hcl:"url,optional"`
	Message string    `hcl:"message,optional"`
	Range   hcl.Range `hcl:",def_range"`
}

// OwnerQuota limits live instances of an owner.
type OwnerQuota struct {
	User  int       `hcl:"user,optional"` // 0: no limit
	Group int       `hcl:"group,optional"`
	Range hcl.Range `hcl:",def_range"`
}

// Quota is a limit for some; the highest that matches counts.
type Quota struct {
	Name      string    `hcl:"name,label"`
	Groups    []string  `hcl:"groups,optional"` // whom it is for: members of one of these; none: everybody
	User      int       `hcl:"user,optional"`
	Group     int       `hcl:"group,optional"`
	Templates []string  `hcl:"templates,optional"` // globs; none: all
	Range     hcl.Range `hcl:",def_range"`
}

// Executor is what runs tofu: the label is local, on this machine.
type Executor struct {
	Name      string      `hcl:"name,label"`
	Program   string      `hcl:"program,optional" path:"program"` // tofu or terraform, by name or path
	Isolation string      `hcl:"isolation,optional"`              // sandbox, user, wrap or none
	Wrap      []string    `hcl:"wrap,optional"`                   // command that starts the tool, of isolation wrap
	Users     []int       `hcl:"users,optional"`                  // of the machine, one for each run at a time, of isolation user
	Show      []string    `hcl:"show,optional"`                   // what a sandbox shows beside system files
	Memory    syntax.Size `hcl:"memory,optional"`                 // of a run
	Scratch   syntax.Size `hcl:"scratch,optional"`                // of all that a run writes; in memory in a sandbox
	Packages  syntax.Size `hcl:"packages,optional"`               // of providers that runs share
	CPUs      float64     `hcl:"cpus,optional"`                   // of a run
	Processes int         `hcl:"processes,optional"`              // of a run, threads included
	Reads     []string    `hcl:"reads,optional"`                  // globs of modules that runs may read
	Ends      bool        `hcl:"ends,optional"`                   // runs end with the server, whatever they do
	Range     hcl.Range   `hcl:",def_range"`
}

// Credential is what runs of the templates that name it have in their environment.
type Credential struct {
	Name    string            `hcl:"name,label"`
	EnvFrom []string          `hcl:"env_from,optional"`          // variables of the server's own environment
	Files   map[string]string `hcl:"files,optional" path:"file"` // variable to a file, whose copy it names
	Command []string          `hcl:"command,optional"`           // prints NAME=VALUE lines, for one run
	Range   hcl.Range         `hcl:",def_range"`
}

// TemplateSource lets templates of a namespace come from the registry.
type TemplateSource struct {
	Templates   string    `hcl:"templates,label"`      // glob
	Versions    string    `hcl:"versions,optional"`    // constraint
	Modules     []string  `hcl:"modules,optional"`     // globs; none: those of their namespace
	Credentials []string  `hcl:"credentials,optional"` // that they may name; none: none
	Max         int       `hcl:"max,optional"`         // most instances of each
	Range       hcl.Range `hcl:",def_range"`
}

// Notify is who is notified of what happens to instances.
type Notify struct {
	URL        string    `hcl:"url"`
	SecretFile string    `hcl:"secret_file" path:"file"` // of the signature
	Range      hcl.Range `hcl:",def_range"`
}
