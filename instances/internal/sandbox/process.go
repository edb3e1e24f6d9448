// SPDX-License-Identifier: Apache-2.0

package sandbox

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
