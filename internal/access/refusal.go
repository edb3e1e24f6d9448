// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/oci"
)

// Refusal is a refusal by access control, not by the registry behind the server.
type Refusal struct {
	Status int
	Text   string       // for the client; contains no token
	Right  rights.Right // the missing right; zero: the refusal is not about a right
	Login  bool         // a login of a browser was refused
}

func (e *Refusal) Error() string { return e.Text }

// Is reports whether target is [oci.ErrUnauthenticated] for status 401, or [oci.ErrDenied] for 403.
func (e *Refusal) Is(target error) bool {
	switch e.Status {
	case http.StatusUnauthorized:
		return target == oci.ErrUnauthenticated
	case http.StatusForbidden:
		return target == oci.ErrDenied
	}
	return false
}
