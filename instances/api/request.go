// SPDX-License-Identifier: Apache-2.0

package api

import "encoding/json"

// IdempotencyKey is the header that names a request: sent again with the same
// body within an hour, it is done once.
const IdempotencyKey = "Idempotency-Key"

// Create is the body of POST instances, and without Template that of POST
// run/NAME.
type Create struct {
	Template   string                     `json:"template,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Name       string                     `json:"name,omitempty"`
	Owner      string                     `json:"owner,omitempty"`   // KIND:ID, such as group:team-a; "": the only one that fits
	TTL        Duration                   `json:"ttl,omitzero"`      // 0: the template's
	Version    string                     `json:"version,omitempty"` // of the module; "": the newest that the template takes
	Force      bool                       `json:"force,omitempty"`   // go beyond limits, which an admin may
	Reason     string                     `json:"reason,omitempty"`  // for who approves it
}

// Extend is the body of extend: without it the template says how long.
type Extend struct {
	By     Duration `json:"by,omitzero"`
	Reason string   `json:"reason,omitempty"` // for who approves it
}

// Update is the body of update. A name changes alone.
type Update struct {
	Name       *string                    `json:"name,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"` // those that change
	Version    string                     `json:"version,omitempty"`    // of the module; "newest": what the template takes now
	Reason     string                     `json:"reason,omitempty"`     // for who approves it
}

// Approve is the body of approve: the plan as the instance shows it.
type Approve struct {
	Plan   string `json:"plan"`
	Reason string `json:"reason,omitempty"` // for who asked; may be empty
}

// Reason is the body of reject and of orphan, and of pause, which needs none.
type Reason struct {
	Reason string `json:"reason"`
}

// Transfer is the body of transfer. To whom the caller does not act for an owner only
// offers it.
type Transfer struct {
	To     string `json:"to"`               // KIND:ID
	Issuer string `json:"issuer,omitempty"` // another one than the caller's is an admin's to name; "": the caller's
	Label  string `json:"label,omitempty"`  // likewise
}

// ShowSensitive is the body of outputs/reveal.
type ShowSensitive struct {
	Name string `json:"name"`
}

// Adopt is the body of admin/adopt.
type Adopt struct {
	Repository string `json:"repository"`   // of the state, with or without its host
	ID         string `json:"id,omitempty"` // of the instance, where several share the repository
}
