// SPDX-License-Identifier: Apache-2.0

package localexec

import "io"

// process identifies one process unambiguously.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the boot
}

// attempt says by what the processes of an attempt are found on this machine.
type attempt struct {
	scratch string  // its folder; "": none is here
	child   process // which may be dead
	cgroup  string  // folder of its control group; "": none
	uid     int     // of its tool, if no other attempt has that user; 0: none
}

// toolCommand is one command of the tool.
type toolCommand struct {
	Args           []string
	Dir            string   // a name in the tool's folder
	Env            []string // the complete environment
	Stdout, Stderr io.Writer
	// Alone means that this process starts nothing else: an orphan that is reparented to
	// it belongs to the tool, and is killed with it.
	Alone bool
}
