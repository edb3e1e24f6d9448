// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// ErrInvalid is wrapped by errors about invalid values. A [*FieldError] says where.
var ErrInvalid = errors.New("invalid")

// FieldError says what is wrong with one value.
type FieldError struct {
	Path string // JSON Pointer (RFC 6901), such as /size
	Text string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Text }
func (e *FieldError) Unwrap() error { return ErrInvalid }

// fieldErrors converts problems to errors. A value is never repeated: it may be secret.
func fieldErrors(problems []schema.Problem) error {
	var all []error
	for _, p := range problems {
		all = append(all, &FieldError{pointer(p.Path...), p.Text})
	}
	return errors.Join(all...)
}

// pointer returns a JSON Pointer (RFC 6901).
func pointer(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}
