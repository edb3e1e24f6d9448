// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"time"
)

// Machine is the life of instances as a pure function: no clock, no randomness,
// no input or output.
type Machine struct {
	Limits Limits
}

// Limits are what the server says of all templates.
type Limits struct {
	Quotas       []Quota
	ApprovalSelf bool // who asked for a run may approve it
}

// Quota limits live records of an owner.
type Quota struct {
	Name      string
	Groups    []string // whom it is for; empty: everybody
	Templates []string // globs; empty: all
	User      int      // 0: says nothing
	Group     int
}

// Step returns the document after a command, and what is then to be done.
func (m *Machine) Step(d *Document, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	return nil, nil, Answer{}, errors.ErrUnsupported
}

// Outstanding are the effects that a new leader repeats: what the document says
// was begun, and of which nobody knows whether it was done.
func (m *Machine) Outstanding(d *Document) []Effect { return nil }
