// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/span"
)

// Error is the answer to a request that failed.
type Error struct {
	Errors    []string          `json:"errors"`
	Fields    map[string]string `json:"fields,omitempty"` // JSON Pointer (RFC 6901) into the body, and what is wrong there
	Reason    string            `json:"reason,omitempty"` // one of the constants
	Limit     int               `json:"limit,omitempty"`  // of ReasonQuota
	Used      int               `json:"used,omitempty"`   // likewise
	RequestID string            `json:"request_id,omitempty"`
}

// Reasons of errors.
const (
	ReasonInvalid   = "invalid"
	ReasonKeyReused = "key_reused"
	ReasonNoEnd     = "no_end"
	ReasonDenied    = "denied"
	ReasonQuota     = "quota"
	ReasonNotFound  = "not_found"
	ReasonPhase     = "phase"
	ReasonExtends   = "extends"
	ReasonStalePlan = "stale_plan"
	ReasonProtected = "protected"
	ReasonPaused    = "paused"
	ReasonExists    = "exists" // the owner may have one instance, and has one with other values
	ReasonRate      = "rate"
	ReasonNoLeader  = "no_leader"
	ReasonPoolEmpty = "pool_empty"
	ReasonFull      = "full"
)

// Me is the answer to GET me: how the server identified the caller.
type Me struct {
	Mode     string    `json:"mode"` // how the caller was identified: anonymous, static, login, oidc
	Issuer   string    `json:"issuer,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Label    string    `json:"label,omitempty"`
	Groups   []string  `json:"groups,omitempty"`
	Admin    bool      `json:"admin"`          // of all instances
	Approver bool      `json:"approver"`       // of some instances
	Quota    *Quota    `json:"quota"`          // of the caller's own live instances
	Shared   int       `json:"shared"`         // live instances of the caller's groups
	AsOf     time.Time `json:"as_of,omitzero"` // time of the counts
	Server   struct {
		Rate int `json:"rate"` // changes per minute and caller
	} `json:"server"` // settings of the server that clients need
}

// AdminInstances is the answer to GET admin/instances.
type AdminInstances struct {
	Instances
	Phases    map[string]int `json:"phases"`               // instances in each phase
	ClockHeld string         `json:"clock_held,omitempty"` // why expiry is suspended; "": it is not
}

// Clock is the answer to POST admin/clock.
type Clock struct {
	Held string `json:"held,omitempty"` // why expiry was suspended until now; "": it was not
}

// AdminTemplate is one template as an administrator sees it.
type AdminTemplate struct {
	Template
	Live     int            `json:"live"`
	Phases   map[string]int `json:"phases,omitempty"`
	Failures int            `json:"failures,omitempty"`  // of its pool, consecutive
	Backoff  time.Time      `json:"backoff,omitzero"`    // no pool instance is made before this time
	PausedBy string         `json:"paused_by,omitempty"` // "": the server
	Gone     bool           `json:"gone,omitempty"`      // the template is gone, but has live instances
}

// AdminTemplates is the answer to GET admin/templates.
type AdminTemplates struct {
	Templates []AdminTemplate `json:"templates"`
}

// IdempotencyKey names a request: sent again with the same body within an hour, it is done once.
const IdempotencyKey = "Idempotency-Key"

// Create is the body of POST instances, and without Template that of POST run/NAME.
type Create struct {
	Template   string                     `json:"template,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Name       string                     `json:"name,omitempty"`
	Owner      string                     `json:"owner,omitempty"`   // KIND:ID, such as group:team-a; "": the only one that fits
	TTL        span.Span                  `json:"ttl,omitzero"`      // 0: the default of the template
	Version    string                     `json:"version,omitempty"` // of the module; "": the newest that the template takes
	Force      bool                       `json:"force,omitempty"`   // exceed limits, for admins only
	Reason     string                     `json:"reason,omitempty"`  // for the approver
}

// Extend is the body of extend: without By the template sets the length.
type Extend struct {
	By     span.Span `json:"by,omitzero"`
	Reason string    `json:"reason,omitempty"` // for the approver
}

// Update is the body of update. A name can only be changed on its own.
type Update struct {
	Name       *string                    `json:"name,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"` // only the changed ones
	Version    string                     `json:"version,omitempty"`    // of the module; "newest": what the template takes now
	Reason     string                     `json:"reason,omitempty"`     // for the approver
}

// Approve is the body of approve: the plan as the instance shows it.
type Approve struct {
	Plan   string `json:"plan"`
	Reason string `json:"reason,omitempty"` // for the requester; may be empty
}

// Reason is the body of reject and of orphan, and of pause, which needs none.
type Reason struct {
	Reason string `json:"reason"`
}

// Transfer is the body of transfer. An owner only offers to one for whom the caller does not act.
type Transfer struct {
	To     string `json:"to"`               // KIND:ID, or the name or address of one who has logged in
	Issuer string `json:"issuer,omitempty"` // "": the caller's; only an admin may name another one
	Label  string `json:"label,omitempty"`  // for admins only; "": the ID
}

// ShowSensitive is the body of outputs/reveal.
type ShowSensitive struct {
	Name string `json:"name"`
}

// Adopt is the body of admin/adopt.
type Adopt struct {
	Repository string `json:"repository"`   // of the state, with or without its host
	ID         string `json:"id,omitempty"` // of the instance, if several share the repository
}

// Kind is a kind of the cluster that the server serves: users create objects of it
// themselves, with kubectl or in Git, and each object makes what the module makes.
type Kind struct {
	Name        string   `json:"name"`        // in the plural, such as vpcs
	Kind        string   `json:"kind"`        // such as VPC
	APIVersion  string   `json:"api_version"` // GROUP/VERSION
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Icon        string   `json:"icon,omitempty"`
	Category    string   `json:"category,omitempty"`
	Tags        []string `json:"tags,omitempty"`

	Module  string `json:"module,omitempty"`  // NAMESPACE/NAME/SYSTEM, or a repository
	Version string `json:"version,omitempty"` // used for new objects
	Invalid string `json:"invalid,omitempty"` // why objects cannot be created now; "": they can
	// Example is an object in YAML to start from. Only for one kind, not in lists.
	Example string `json:"example,omitempty"`
}

// LogPosition is a position in the log of a run, as in the event ids of its stream.
type LogPosition struct {
	Attempt int   // from 1 on
	Offset  int64 // of the next byte in the log of that attempt
}

// String returns the id of an event: ATTEMPT-OFFSET.
func (p LogPosition) String() string { return fmt.Sprintf("%d-%d", p.Attempt, p.Offset) }

// ParseLogPosition reads what [LogPosition.String] returns, and nothing else.
func ParseLogPosition(s string) (LogPosition, error) {
	attempt, offset, _ := strings.Cut(s, "-")
	n, err := strconv.Atoi(attempt)
	at, oerr := strconv.ParseInt(offset, 10, 64)
	p := LogPosition{n, at}
	outside := n < 1 || at < 0
	if err != nil || oerr != nil || outside || p.String() != s {
		return LogPosition{}, fmt.Errorf("%.40q: must be ATTEMPT-OFFSET such as 1-4096", s)
	}
	return p, nil
}
