// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// Categories of variables.
const (
	Terraform   = "terraform" // a variable of the configuration
	Environment = "env"       // an environment variable of the tool
)

// Variable is a variable of a workspace or of a set.
type Variable struct {
	ID          string `json:"-"`
	Workspace   string `json:"workspace,omitempty"` // the owner; "": the set is the owner
	Set         string `json:"set,omitempty"`       // id
	Key         string `json:"key"`
	Value       string `json:"value"`
	Description string `json:"description,omitempty"`
	Category    string `json:"category"`
	HCL         bool   `json:"hcl,omitempty"` // the value is the text of an expression
	Sensitive   bool   `json:"sensitive,omitempty"`
}

// Set is a set of variables of an organization.
type Set struct {
	ID          string `json:"-"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Global      bool   `json:"global,omitempty"`   // all workspaces use it
	Priority    bool   `json:"priority,omitempty"` // it takes precedence over nearer values
}

// Use says that a workspace, or each workspace of a project, uses a set.
type Use struct {
	Set       string `json:"set"`
	Workspace string `json:"workspace,omitempty"`
	Project   string `json:"project,omitempty"`
}

// Settings are those settings of a workspace that decide about its runs.
type Settings struct {
	Workspace string            `json:"workspace"`
	Project   string            `json:"project,omitempty"`
	Mode      string            `json:"mode,omitempty"`    // local or remote; "": local
	Options   map[string]string `json:"options,omitempty"` // by their names in tfe.v2. Must not be changed
}

// record is the content of a tag. Exactly one of the pointers is set.
type record struct {
	tag      tag
	seal     map[string]string // annotations of its layer
	Variable *Variable         `json:"variable,omitempty"`
	Set      *Set              `json:"set,omitempty"`
	Use      *Use              `json:"use,omitempty"`
	Settings *Settings         `json:"settings,omitempty"`
	Deleted  bool              `json:"deleted,omitempty"`
	By       string            `json:"by,omitempty"`
	Updated  time.Time         `json:"updated"`
}

func (r *record) markDeleted(by string, now time.Time) {
	if r.Variable != nil {
		one := *r.Variable // another reader may have the record
		one.Value = ""
		r.Variable = &one
	}
	r.Deleted = true
	r.By = by
	r.Updated = now.UTC()
}

// Kinds of records.
const (
	kindVariable = "var"
	kindSet      = "set"
	kindUse      = "use"
	kindSettings = "run" // of a workspace
)

// tag names a record: variable-KIND-PARENT-ID-SEQ-NONCE.
type tag struct {
	kind   string
	parent string // 8 hex digits of a hash of the owner
	id     string // 16 letters and digits
	seq    int    // from 1 on; the highest counts, and of equal ones the larger nonce
	nonce  string // 8 hex digits
}

const (
	tagPrefix = "variable-"
	maxSeq    = 999_999
	idLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	// IDLength is how many letters and digits an id has.
	IDLength = 16
)

var tagRE = text.Pattern(`^variable-(var|set|use|run)-([0-9a-f]{8})-([0-9A-Za-z]{16})-([0-9]{6})-([0-9a-f]{8})$`)

func (t tag) String() string {
	return fmt.Sprintf("%s%s-%s-%s-%06d-%s", tagPrefix, t.kind, t.parent, t.id, t.seq, t.nonce)
}

func parseTag(s string) (tag, bool) {
	if !strings.HasPrefix(s, tagPrefix) {
		return tag{}, false
	}
	m := tagRE().FindStringSubmatch(s)
	if m == nil {
		return tag{}, false
	}
	seq, _ := strconv.Atoi(m[4]) // six digits
	return tag{m[1], m[2], m[3], seq, m[5]}, seq > 0
}

func newNonce() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Letters returns n letters and digits that are derived from a text.
func Letters(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	b := make([]byte, n)
	for i := range b { // the bias of a byte does not matter in a name
		b[i] = idLetters[int(sum[i])%len(idLetters)]
	}
	return string(b)
}

// kindWorkspace is the kind of an owner that has no record here.
const kindWorkspace = "workspace"

func settingsID(workspace string) string { return Letters("run\x00"+workspace, IDLength) }

// parentHash returns the parent in a tag, the hash of the owner of a record.
func parentHash(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + name))
	return hex.EncodeToString(sum[:4])
}

// tagParts returns the parts of the tag that follow from the content of a record.
func (r record) tagParts() (kind, parent, id string) {
	switch {
	case r.Variable != nil && r.Variable.Set != "":
		return kindVariable, parentHash(kindSet, r.Variable.Set), r.Variable.ID
	case r.Variable != nil:
		return kindVariable, parentHash(kindWorkspace, r.Variable.Workspace), r.Variable.ID
	case r.Settings != nil:
		return kindSettings, parentHash(kindWorkspace, r.Settings.Workspace), settingsID(r.Settings.Workspace)
	case r.Set != nil:
		return kindSet, parentHash("", ""), r.Set.ID
	case r.Use != nil:
		return kindUse, parentHash(kindSet, r.Use.Set), Letters(r.Use.Set+"\x00"+r.Use.Workspace+"\x00"+r.Use.Project, IDLength)
	}
	return "", "", ""
}
