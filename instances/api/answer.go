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
