// SPDX-License-Identifier: Apache-2.0

package text

import (
	"regexp"
	"sync"
)

// Pattern compiles a regular expression at its first use, and panics like [regexp.MustCompile].
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
