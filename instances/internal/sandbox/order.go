// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
)

// Order is what a child reads from its standard input, as JSON: the specification, and all that it
// needs and that must not appear in arguments or environment. It is secret as a whole.
type Order struct {
	Spec      run.Attempt `json:"spec"`
	Program   string      `json:"program"` // absolute name of tofu or terraform
	Okara     string      `json:"okara"`   // absolute name of this program
	Scratch   string      `json:"scratch"` // folder of this attempt
	Isolation Isolation   `json:"isolation"`
	Registry  Registry    `json:"registry"`
	StateKeys string      `json:"state_keys,omitempty"` // as in OKARA_STATE_KEYS; "": states are not sealed
	Server    Server      `json:"server,omitzero"`
	Packages  Packages    `json:"packages,omitzero"`

	Prices *prices.Table `json:"prices,omitempty"` // prices for a plan that is kept; nil: none

	Environment map[string]string `json:"environment,omitempty"` // of the tool: the variables of the credentials
	Files       map[string][]byte `json:"files,omitempty"`       // files of the credentials; Environment names them as ${files}/NAME
	Masked      []string          `json:"masked,omitempty"`      // further values that must not appear in logs

	// Ask holds the arguments of a single command of the tool, if this is a question
	// instead of an attempt: its output goes to standard output.
	Ask []string `json:"ask,omitempty"`

	AllowEncryption bool `json:"allow_encryption,omitempty"` // allow encryption blocks in an uploaded configuration
}

// Open makes the folder that the tool may write, below that of the attempt or where the
// sandbox has mounted it. No tool has run in it yet.
func (o *Order) Open() (*Workdir, error) {
	return openWorkdir(workdirOptions{
		Scratch: o.Scratch, Placed: o.Isolation.Mode == ModeSandbox, UID: o.Isolation.UID, GID: o.Isolation.GID,
	})
}

// Registry configures access to the registry.
type Registry struct {
	Prefix    string `json:"prefix"` // HOST[/PATH]
	PlainHTTP bool   `json:"plain_http,omitempty"`
	Socket    string `json:"socket,omitempty"`   // of the built-in registry
	BuiltIn   bool   `json:"built_in,omitempty"` // it is the built-in registry, whose features are known
	Username  string `json:"username,omitempty"`
	Password  string `json:"password,omitempty"`
	Token     string `json:"token,omitempty"`
	CA        []byte `json:"ca,omitempty"` // PEM
	// Files of this machine that the child reads: a client certificate and its key, and
	// folders with certificates for each host, like Docker's certs.d.
	ClientCert string   `json:"client_cert,omitempty"`
	ClientKey  string   `json:"client_key,omitempty"`
	CertDirs   []string `json:"cert_dirs,omitempty"`
	Insecure   bool     `json:"insecure,omitempty"` // accept any certificate
}

// Server is the front-end from which the tool fetches modules and providers.
type Server struct {
	URL    string   `json:"url"`              // base URL
	Host   string   `json:"host"`             // host name in addresses of modules and providers
	Token  string   `json:"token,omitempty"`  // of this run
	Mirror bool     `json:"mirror,omitempty"` // it has a network mirror
	CA     []byte   `json:"ca,omitempty"`     // PEM
	Hosts  []string `json:"hosts,omitempty"`  // hosts whose providers the mirror has; nil: all
}

// Packages is the folder of the providers that runs share; zero: none.
type Packages struct {
	Dir string `json:"dir"`
	Max int64  `json:"most"` // bytes
}

// PackagesFolder in a scratch folder has the tool's part of [Packages], as hard links. A
// sandbox shows it under this name, read-only.
const PackagesFolder = "packages"

// PackagesDir returns the folder of this attempt's packages; "": none.
func (o *Order) PackagesDir() string {
	if o.Packages.Dir == "" {
		return ""
	}
	return filepath.Join(o.Scratch, PackagesFolder)
}

// shownFiles returns what a sandbox shows besides system files.
func (o *Order) shownFiles() []string {
	if dir := o.PackagesDir(); dir != "" {
		return append(slices.Clip(o.Isolation.Show), dir)
	}
	return o.Isolation.Show
}

// Isolation configures what isolates the tool from the rest of the machine.
type Isolation struct {
	Mode  string   `json:"mode"`            // sandbox, user, wrap or none
	Wrap  []string `json:"wrap,omitempty"`  // command that starts the tool
	Bwrap string   `json:"bwrap,omitempty"` // absolute name of bubblewrap, for sandbox
	UID   int      `json:"uid,omitempty"`   // of the tool, for user, and for sandbox if we are root; 0: ours
	GID   int      `json:"gid,omitempty"`
	Show  []string `json:"show,omitempty"` // what a sandbox shows besides system files, read-only; includes the tool
	Hide  []string `json:"hide,omitempty"` // folders that a sandbox must not show

	Cgroup    string `json:"cgroup,omitempty"`    // folder of the control group of this attempt; "": none
	Processes int    `json:"processes,omitempty"` // and threads; 0: no limit
}

// Modes of isolation, as in the settings.
const (
	ModeSandbox = "sandbox" // separate namespaces, made by bubblewrap
	ModeUser    = "user"    // a separate user for each concurrent run
	ModeWrap    = "wrap"    // a command of the operator
	ModeNone    = "none"    // the tool has all rights of the server
)

// defaultScratch limits the scratch folder if a spec sets no limit.
const defaultScratch = 2 << 30

// scratchTime is how often the size of the tool's folder is checked while it runs, if the
// kernel does not limit it.
const scratchTime = 2 * time.Second

func (o *Order) maxScratch() int64 { return cmp.Or(o.Spec.Limits.Scratch, defaultScratch) }

// CheckScratch returns an error if the tool's folder has reached the limit of the order, or
// 2 GiB without one.
func (o *Order) CheckScratch(dir *Workdir) error { return dir.checkSpace(o.maxScratch()) }

// Changes reports whether the attempt may change resources: others leave no state.
func (o *Order) Changes() bool {
	return o.Spec.Ref.Kind == lifecycle.RunApply || o.Spec.Ref.Kind == lifecycle.RunDestroy
}

// EnterArgs returns the arguments of okara that enter the sandbox's folder, before the
// program that runs there.
func (o *Order) EnterArgs() []string { return o.enterOptions().args() }

// enterOptions returns the options for entering the sandbox's folder.
func (o *Order) enterOptions() EnterOptions {
	p := EnterOptions{Size: o.maxScratch(), UID: o.Isolation.UID, GID: o.Isolation.GID, Show: o.shownFiles()}
	if o.Changes() {
		p.Errored = filepath.Join(o.Scratch, ErroredFile)
	}
	return p
}

// LogFile and ResultFile are copies of what the registry has, in the scratch folder, for
// readers on this machine and for when the registry does not answer.
const (
	LogFile    = "log"
	ResultFile = "result.json"
)

// Answered ends the output of a child whose tool answered a question.
const Answered = "\x04"
