// SPDX-License-Identifier: Apache-2.0

package templatesource

import (
	"slices"

	"github.com/seed-141914ff/okara/instances/template"
)

// Problems returns the present errors in files and artifacts.
func (t *Templates) Problems() []template.Problem {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}
