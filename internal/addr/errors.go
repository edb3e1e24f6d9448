// SPDX-License-Identifier: Apache-2.0

package addr

import "fmt"

// SyntaxError means that a text is not what okara can store. It names part, character and rule.
type SyntaxError struct {
	What   string // "module namespace", "version", …
	Value  string
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s %q: %s", e.What, e.Value, e.Reason) }

func syntaxError(what, value, reason string, args ...any) error {
	return &SyntaxError{What: what, Value: value, Reason: fmt.Sprintf(reason, args...)}
}
