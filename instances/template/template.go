// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/schema"
	"github.com/seed-141914ff/okara/instances/internal/timetable"
)

// Template describes what may be launched; what is unset has its default. Documents store its JSON.
type Template struct {
	Name        string `json:"name"` // namespace/name
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Icon        string `json:"icon,omitempty"`
	Category    string `json:"category,omitempty"`
	Enabled     bool   `json:"enabled"`
	Visible     bool   `json:"visible"`

	Module ModuleRef `json:"module"`
	// Chart is a Helm chart in place of a module, in its executor's format; nil: there is a module.
	Chart    json.RawMessage `json:"chart,omitempty"`
	Executor string          `json:"executor"` // local, or another one on a cluster
	Owner    string          `json:"owner"`    // user, group or claim:NAME
	Groups   []string        `json:"groups,omitempty"`
	PerOwner int             `json:"per_owner,omitempty"` // 0: no limit
	Max      int             `json:"max,omitempty"`       // 0: no limit
	Approval string          `json:"approval"`            // none, request or plan

	TTL        *TTL            `json:"ttl,omitempty"`     // nil: no end
	Endless    bool            `json:"endless,omitempty"` // the template says so: the server's default does not apply
	Pool       *PoolSize       `json:"pool,omitempty"`
	Parameters []Parameter     `json:"parameters,omitempty"` // in the order of the file
	Inputs     json.RawMessage `json:"inputs,omitempty"`     // object; strings are HCL templates
	Outputs    []string        `json:"outputs,omitempty"`
	Connection *Connection     `json:"connection,omitempty"` // its texts are HCL templates

	Credentials []string        `json:"credentials,omitempty"`
	RequireLock bool            `json:"require_module_lock,omitempty"` // runs need a lock of modules
	Timeout     time.Duration   `json:"timeout"`
	Retries     int             `json:"retries"`
	Protection  bool            `json:"protection"` // owners may protect instances
	Drift       *Drift          `json:"drift,omitempty"`
	Update      string          `json:"update"` // manual or auto
	Notices     []time.Duration `json:"notices,omitempty"`
	Cost        *Cost           `json:"cost,omitempty"`

	Schedule *timetable.Schedule `json:"schedule,omitempty"` // nil: instances are never stopped
}

// Limit returns how many instances of a template are allowed; 0: no limit.
func (t *Template) Limit() int {
	if p := t.Pool; p != nil && p.Max > 0 && (t.Max == 0 || p.Max < t.Max) {
		return p.Max
	}
	return t.Max
}

// Values of a template's attributes.
const (
	ExecutorLocal = "local"     // runs the tool on the machine of the leader
	ExecutorHelm  = "flux-helm" // for charts only; not available in okara serve

	ApprovalNone    = "none"
	ApprovalRequest = "request" // of each instance, before anything runs
	ApprovalPlan    = "plan"    // of each plan

	expireDestroy = "destroy"
	expireKeep    = "keep" // the resources are orphaned

	poolCreate = "create" // make an instance on demand
	PoolRefuse = "refuse" // refuse until a member is available

	updateManual = "manual"
	updateAuto   = "auto"

	ConnectionWeb          = "web"
	ConnectionInstructions = "instructions"
)

// ModuleRef is the module of a template.
type ModuleRef struct {
	Address string `json:"address"`           // namespace/name/system
	Version string `json:"version,omitempty"` // constraint, exact version or digest; "": any release
	Path    string `json:"path,omitempty"`
}

// Pinned reports whether the version is a digest.
func (m ModuleRef) Pinned() bool {
	digest, ok := strings.CutPrefix(m.Version, "sha256:")
	return ok && len(digest) == 64 && strings.Trim(digest, "0123456789abcdef") == ""
}

// Source is the module that is run, identified by digest, or the chart.
type Source struct {
	Module  string `json:"module"`          // address, namespace/name/system; "" if there is a Chart
	Chart   string `json:"chart,omitempty"` // URL of its repository
	Version string `json:"version"`
	Digest  string `json:"digest"`           // of the manifest; for a chart in git "sha1:" and the commit
	Archive string `json:"archive"`          // digest of the zip
	Size    int64  `json:"size,omitempty"`   // of the zip, bytes; 0: not known, looked up when needed
	Path    string `json:"path,omitempty"`   // below the archive; for a chart its name or folder, if the URL alone does not say it
	Lock    string `json:"lock,omitempty"`   // digest of the dependency lock file; "": none yet
	Secret  string `json:"secret,omitempty"` // name of the secret for fetching a chart; "": anonymously
}

// TTL is the lifetime of an instance.
type TTL struct {
	Default  time.Duration `json:"default"`
	Max      time.Duration `json:"max,omitempty"` // from creation or claim; 0: none
	Extend   time.Duration `json:"extend,omitempty"`
	Extends  int           `json:"extends,omitempty"`
	Failed   time.Duration `json:"failed,omitempty"`
	OnExpire string        `json:"on_expire"` // destroy or keep
}

// PoolSize says how many instances are kept ready.
type PoolSize struct {
	Size      int           `json:"size"`
	Max       int           `json:"max,omitempty"`
	MaxAge    time.Duration `json:"max_age,omitempty"`
	WhenEmpty string        `json:"when_empty"` // create or refuse
}

// Parameter exposes one input of the module, and may narrow it.
type Parameter struct {
	Name    string            `json:"name"`
	Title   string            `json:"title,omitempty"`
	Help    string            `json:"help,omitempty"`
	Default json.RawMessage   `json:"default,omitempty"`
	Enum    []json.RawMessage `json:"enum,omitempty"`
	Pattern string            `json:"pattern,omitempty"`
	Minimum *float64          `json:"minimum,omitempty"`
	Maximum *float64          `json:"maximum,omitempty"`
	Update  bool              `json:"update,omitempty"` // may change later
	Link    bool              `json:"link,omitempty"`   // a link may fill it in
	// When says that the parameter is asked for only if each of these earlier ones is and has one of
	// the values. Else it has its default.
	When map[string][]json.RawMessage `json:"when,omitempty"`
}

// Drift says how often an instance is compared with its state.
type Drift struct {
	Every     time.Duration `json:"every"`
	Remediate bool          `json:"remediate,omitempty"`
}

// Cost is a price for display.
type Cost struct {
	Hourly   float64 `json:"hourly"`
	Currency string  `json:"currency"`
}

// Connection tells users how to reach an instance.
type Connection struct {
	Type    string `json:"type"` // web or instructions
	URL     string `json:"url,omitempty"`
	Message string `json:"message,omitempty"`
}

// Entry is one template with the module version that it refers to at present.
type Entry struct {
	Template *Template
	Digest   string  // of Template
	Source   Source  // zero while there is a Problem
	Schema   *Schema // nil while there is a Problem
	From     string  // FILE, or REPOSITORY:TAG@DIGEST
	// Problem is why no instance can be made, or "". It pauses the pool, and is shown to those who
	// may launch.
	Problem string
	// Unseen reports that the module was not resolved yet: its Problem is temporary.
	Unseen bool
	// Cause is the registry's error behind Problem, shown only to those who may fix it.
	Cause string
	// Behind is why Source is not the newest allowed version, or "".
	Behind string
}

// Problem is an error in a file or an artifact. The templates last read from it are kept.
type Problem struct {
	From string // file or name of a template
	Text string // template NAME: FILE:LINE: …
}

// ErrInvalid is wrapped by errors about invalid values. A [*FieldError] says where.
var ErrInvalid = errors.New("invalid")

// FieldError says what is wrong with one value.
type FieldError struct {
	Path string // JSON Pointer (RFC 6901), such as /size
	Text string
}

func (e *FieldError) Error() string { return strings.TrimPrefix(e.Path+": "+e.Text, ": ") }
func (e *FieldError) Unwrap() error { return ErrInvalid }

// fieldErrors converts problems to errors. A value is never repeated: it may be secret.
func fieldErrors(problems []schema.Problem) error {
	var all []error
	for _, p := range problems {
		all = append(all, &FieldError{jsonPointer(p.Path...), p.Text})
	}
	return errors.Join(all...)
}

// jsonPointer returns a JSON Pointer (RFC 6901).
func jsonPointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}
