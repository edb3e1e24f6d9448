// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	"github.com/seed-141914ff/okara/instances/internal/span"
)

// IdempotencyKey is the header that names a request: if sent again with the same body
// within an hour, the request is done only once.
const IdempotencyKey = "Idempotency-Key"

// Create is the body of POST instances, and without Template that of POST
// run/NAME.
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

// Transfer is the body of transfer. To an owner for which the caller does not act, a
// transfer by the owner is only an offer.
type Transfer struct {
	To     string `json:"to"`               // KIND:ID
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
