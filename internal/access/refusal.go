// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
)

// Refusal is an answer that access control gives itself. That it is this type
// distinguishes it from a refusal of the registry behind the server, which is
// nothing that the client could change.
type Refusal struct {
	Status int
	Text   string       // for the client; it names no token
	Right  rights.Right // that is missing; the zero value: it is not about one
}

func (e *Refusal) Error() string { return e.Text }

// Is reports whether the refusal is [oci.ErrUnauthenticated], nobody said who
// asks, or [oci.ErrDenied], who asks may not.
func (e *Refusal) Is(target error) bool {
	switch e.Status {
	case http.StatusUnauthorized:
		return target == oci.ErrUnauthenticated
	case http.StatusForbidden:
		return target == oci.ErrDenied
	}
	return false
}
