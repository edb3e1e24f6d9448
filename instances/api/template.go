// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	"github.com/seed-141914ff/okara/instances/internal/span"
)

// Templates is the answer to GET templates.
type Templates struct {
	Templates []Template `json:"templates"`       // by name
	Kinds     []Kind     `json:"kinds,omitempty"` // of a cluster; only on the first page
	Count     int        `json:"count"`           // of all templates, not only of this page
	Next      string     `json:"next,omitempty"`
}

// Template is what a user who may launch a template needs to know.
type Template struct {
	Name        string `json:"name"` // NAMESPACE/NAME
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Icon        string `json:"icon,omitempty"`
	Category    string `json:"category,omitempty"`
	Enabled     bool   `json:"enabled"`
	Visible     bool   `json:"visible"`
	Digest      string `json:"digest,omitempty"` // of its content

	Module   string   `json:"module"`            // NAMESPACE/NAME/SYSTEM
	Version  string   `json:"version,omitempty"` // a constraint, a version or a digest
	Owner    string   `json:"owner"`             // user, group or claim:NAME
	Groups   []string `json:"groups,omitempty"`  // globs that narrow the groups
	PerOwner int      `json:"per_owner,omitempty"`
	Max      int      `json:"max,omitempty"`
	Approval string   `json:"approval"` // none, request or plan

	TTL        *TTL            `json:"ttl,omitempty"` // absent: its instances have no end
	Pool       *Pool           `json:"pool,omitempty"`
	Parameters []Parameter     `json:"parameters,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"` // JSON Schema of the parameters together
	Outputs    []string        `json:"outputs,omitempty"`
	Protection bool            `json:"protection"`
	Update     string          `json:"update,omitempty"`
	Cost       *Cost           `json:"cost,omitempty"`
	Hours      string          `json:"hours,omitempty"` // when its instances are stopped and started next, in words; absent: never

	Paused  string  `json:"paused,omitempty"`  // why no instances are made; "": not paused
	Invalid string  `json:"invalid,omitempty"` // why it cannot be launched; in full for callers that may launch or repair it
	Behind  string  `json:"behind,omitempty"`  // why it stays at an older version of its module; for callers that may repair it
	Quota   *Quota  `json:"quota,omitempty"`   // of the caller for this template
	Owners  []Owner `json:"owners,omitempty"`  // owners for which the caller may launch it
	Force   bool    `json:"force,omitempty"`   // the caller may go beyond limits
	Closed  string  `json:"closed,omitempty"`  // why the caller cannot launch it now; "": possible
	// Versions of the module that a launch may name, the highest first. Only for one
	// template, not in lists.
	Versions []string `json:"versions,omitempty"`
}

// TTL is the lifetime of an instance.
type TTL struct {
	Default  span.Span `json:"default"`
	Max      span.Span `json:"max,omitzero"`
	Extend   span.Span `json:"extend,omitzero"`
	Extends  int       `json:"extends,omitempty"`
	OnExpire string    `json:"on_expire,omitempty"`
}

// Pool counts the instances that are ready to be claimed.
type Pool struct {
	Size      int `json:"size"`
	Available int `json:"available"`
	Claimed   int `json:"claimed"`
	Total     int `json:"total"` // all live ones, including those being made
}

// Parameter is a value that the caller of a launch gives.
type Parameter struct {
	Name      string            `json:"name"`
	Title     string            `json:"title,omitempty"`
	Help      string            `json:"help,omitempty"`
	Default   json.RawMessage   `json:"default,omitempty"`
	Enum      []json.RawMessage `json:"enum,omitempty"`
	Pattern   string            `json:"pattern,omitempty"`
	Minimum   *float64          `json:"minimum,omitempty"`
	Maximum   *float64          `json:"maximum,omitempty"`
	Update    bool              `json:"update,omitempty"`
	Link      bool              `json:"link,omitempty"`
	Required  bool              `json:"required,omitempty"`
	Sensitive bool              `json:"sensitive,omitempty"`
	// When lists parameters that must apply and have one of these values for this one to apply.
	When map[string][]json.RawMessage `json:"when,omitempty"`
}

// Quota is how much of a limit is used.
type Quota struct {
	Limit int `json:"limit"` // 0: no limit
	Used  int `json:"used"`
}
