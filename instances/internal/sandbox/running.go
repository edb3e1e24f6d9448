// SPDX-License-Identifier: Apache-2.0

package sandbox

import "io"

// Command is one command of the tool.
type Command struct {
	Args           []string
	Dir            string   // a name in the tool's folder
	Env            []string // the complete environment
	Stdout, Stderr io.Writer
	// Alone means that this process starts nothing else: an orphan that is reparented to
	// it belongs to the tool, and is killed with it.
	Alone bool
}
