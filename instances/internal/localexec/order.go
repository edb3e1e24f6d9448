// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
)

// toolCommand is one command of the tool.
type toolCommand struct {
	Args           []string
	Dir            string   // a name in the folder of the tool
	Env            []string // all of it
	Stdout, Stderr io.Writer
	// Alone says that this process starts nothing else: whatever becomes its
	// child by the death of a parent is of the tool, and is killed with it.
	Alone bool
}

// startedTool is a command of the tool that runs, with all that it starts.
type startedTool interface {
	Interrupt() error // asks it, once, to end in order
	Kill() error      // ends it and all that it started, at once
	Wait() error      // as of [exec.Cmd]; everything that it wrote was passed on by then
}

// Order is what a child reads from its standard input: the specification, and
// all that it needs and that no argument or variable of its environment may
// show. It is secret as a whole.
type Order struct {
	Spec      run.Spec  `json:"spec"`
	Program   string    `json:"program"` // absolute name of tofu or terraform
	Okara     string    `json:"okara"`   // absolute name of this program
	Scratch   string    `json:"scratch"` // folder of this attempt
	Isolation Isolation `json:"isolation"`
	Registry  Registry  `json:"registry"`
	StateKeys string    `json:"state_keys,omitempty"` // as in OKARA_STATE_KEYS; "": states are not sealed
	Server    Server    `json:"server,omitzero"`
	Packages  Packages  `json:"packages,omitzero"`

	Prices *prices.Table `json:"prices,omitempty"` // of what a plan that is kept changes; nil: there are none

	Environment map[string]string `json:"environment,omitempty"` // of the tool: what the credentials give
	Files       map[string][]byte `json:"files,omitempty"`       // files of the credentials; Environment names them as ${files}/NAME
	Masked      []string          `json:"masked,omitempty"`      // further values that no log may show

	// Ask are the arguments of the only command of the tool, where that is no attempt
	// but a question: what it says is for standard output.
	Ask []string `json:"ask,omitempty"`

	AllowEncryption bool `json:"allow_encryption,omitempty"` // in what was uploaded

	dir *sandbox.Workdir // what the tool can write; nil until it is made
}

// open makes the folder of the tool, in which nothing ran.
func (o *Order) open() (err error) {
	o.dir, err = sandbox.Open(sandbox.Options{
		Scratch: o.Scratch, Placed: o.Isolation.Mode == Sandbox, UID: o.Isolation.UID, GID: o.Isolation.GID,
	})
	return err
}

// Registry is how the child reaches the registry.
type Registry struct {
	Prefix    string `json:"prefix"` // HOST[/PATH]
	PlainHTTP bool   `json:"plain_http,omitempty"`
	Socket    string `json:"socket,omitempty"`   // of the built-in registry
	BuiltIn   bool   `json:"built_in,omitempty"` // it is that one, of which is known what it can
	Username  string `json:"username,omitempty"`
	Password  string `json:"password,omitempty"`
	Token     string `json:"token,omitempty"`
	CA        []byte `json:"ca,omitempty"` // PEM
	// Files of this machine, which the child reads itself: a certificate to show
	// and its key, and folders with certificates for each host, as Docker's certs.d.
	ClientCert string   `json:"client_cert,omitempty"`
	ClientKey  string   `json:"client_key,omitempty"`
	CertDirs   []string `json:"cert_dirs,omitempty"`
	Insecure   bool     `json:"insecure,omitempty"` // any certificate will do
}

// Server is the front-end that the tool fetches modules and providers from.
type Server struct {
	URL    string   `json:"url"`              // base
	Host   string   `json:"host"`             // by which modules and providers name it
	Token  string   `json:"token,omitempty"`  // of this run
	Mirror bool     `json:"mirror,omitempty"` // it has a network mirror
	CA     []byte   `json:"ca,omitempty"`     // PEM
	Hosts  []string `json:"hosts,omitempty"`  // whose providers the mirror has; nil: all
}

// Packages is the folder of providers that runs share; the zero value is none.
type Packages struct {
	Dir string `json:"dir"`
	Max int64  `json:"most"` // bytes
}

// packagesFolder of a scratch folder has what the tool gets of [Packages], by hard links. A
// sandbox shows it under this name, to be read.
const packagesFolder = "packages"

// packages is the folder of this attempt's packages; "": there is none.
func (o *Order) packages() string {
	if o.Packages.Dir == "" {
		return ""
	}
	return filepath.Join(o.Scratch, packagesFolder)
}

// shown is what a sandbox shows beside system files.
func (o *Order) shown() []string {
	if dir := o.packages(); dir != "" {
		return append(slices.Clip(o.Isolation.Show), dir)
	}
	return o.Isolation.Show
}

// Isolation says what keeps the tool from the rest of the machine.
type Isolation struct {
	Mode  string   `json:"mode"`            // sandbox, user, wrap or none
	Wrap  []string `json:"wrap,omitempty"`  // command that the tool is started with
	Bwrap string   `json:"bwrap,omitempty"` // absolute name of bubblewrap, of sandbox
	UID   int      `json:"uid,omitempty"`   // that the tool has, of user, and of sandbox where we are root; 0: ours
	GID   int      `json:"gid,omitempty"`
	Show  []string `json:"show,omitempty"` // what a sandbox shows beside system files, to be read; the tool is among it
	Hide  []string `json:"hide,omitempty"` // folders that it must not show

	Cgroup    string `json:"cgroup,omitempty"`    // folder of the control group of this attempt; "": none
	Processes int    `json:"processes,omitempty"` // and threads; 0: no limit
}

// Modes of isolation.
const (
	Sandbox     = "sandbox" // namespaces of its own, made by bubblewrap
	OwnUser     = "user"    // a user for each place
	Wrapped     = "wrap"    // a command of the operator
	NoIsolation = "none"    // the tool can do what the server can
)

// defaultScratch bounds the scratch folder where a spec says nothing.
const defaultScratch = 2 << 30

// scratchTime is how often the size of the folder of a tool is looked at while it
// runs, where the kernel does not bound it.
const scratchTime = 2 * time.Second

func (o *Order) maxScratch() int64 { return cmp.Or(o.Spec.Limits.Scratch, defaultScratch) }

// checkScratch refuses to go on where the tool wrote as much as it may.
func (o *Order) checkScratch() error { return o.dir.Check(o.maxScratch()) }
