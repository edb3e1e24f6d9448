// SPDX-License-Identifier: Apache-2.0

package text

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled when it is first asked for,
// and not when a program starts that may never need it. It panics then if expr is
// none, as [regexp.MustCompile] does.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
