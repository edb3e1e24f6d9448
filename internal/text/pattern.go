// SPDX-License-Identifier: Apache-2.0

package text

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles a regular expression on its first
// call, so that a program does not compile it at startup. The function panics
// if expr is invalid, as [regexp.MustCompile] does.
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
