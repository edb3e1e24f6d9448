// SPDX-License-Identifier: Apache-2.0

package sandbox

import "io"

// Process identifies one process unambiguously.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the boot
}

// Processes says by what the processes of an attempt are found on this machine. The child is
// one of them, with all that it started.
type Processes struct {
	Scratch string  // its folder; "": none is here
	Child   Process // which may be dead
	Cgroup  string  // folder of its control group; "": none
	UID     int     // of its tool, if no other attempt has that user; 0: none
}

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
