// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"

	"github.com/seed-141914ff/okara/instances/internal/schema"
)

// fieldErrors says where a value does not fit. A value is never repeated: it may
// be secret.
func fieldErrors(problems []schema.Problem) error {
	var all []error
	for _, p := range problems {
		all = append(all, &FieldError{pointer(p.Path...), p.Text})
	}
	return errors.Join(all...)
}
