// SPDX-License-Identifier: Apache-2.0

package api

import "time"

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
	ReasonRate      = "rate"
	ReasonNoLeader  = "no_leader"
	ReasonPoolEmpty = "pool_empty"
	ReasonFull      = "full"
)

// Me is the answer to GET me: who the server takes the caller for.
type Me struct {
	Mode     string    `json:"mode"` // how that is known: anonymous, static, login, oidc
	Issuer   string    `json:"issuer,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Label    string    `json:"label,omitempty"`
	Groups   []string  `json:"groups,omitempty"`
	Admin    bool      `json:"admin"`          // of all instances
	Approver bool      `json:"approver"`       // of some
	Quota    *Quota    `json:"quota"`          // of the caller's own live instances
	Shared   int       `json:"shared"`         // live instances of the caller's groups
	AsOf     time.Time `json:"as_of,omitzero"` // of what was counted
	Server   struct {
		Rate int `json:"rate"` // changes a minute and caller
	} `json:"server"` // what clients and pages go by
}

// AdminInstances is the answer to GET admin/instances.
type AdminInstances struct {
	Instances
	Phases    map[string]int `json:"phases"`               // how many of each
	ClockHeld string         `json:"clock_held,omitempty"` // why expiry waits; "": it does not
}

// Clock is the answer to POST admin/clock.
type Clock struct {
	Held string `json:"held,omitempty"` // why expiry waited until now; "": it did not
}

// AdminTemplate is one template as an administrator sees it.
type AdminTemplate struct {
	Template
	Live     int            `json:"live"`
	Phases   map[string]int `json:"phases,omitempty"`
	Failures int            `json:"failures,omitempty"`  // of its pool, in a row
	Backoff  time.Time      `json:"backoff,omitzero"`    // no member is made before
	PausedBy string         `json:"paused_by,omitempty"` // "": the server did
	Gone     bool           `json:"gone,omitempty"`      // instances of it live, and it is not there any more
}

// AdminTemplates is the answer to GET admin/templates.
type AdminTemplates struct {
	Templates []AdminTemplate `json:"templates"`
}
