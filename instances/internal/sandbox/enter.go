// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"io"
	"strconv"
)

// EnterCommand is the command of okara that calls [Enter] for a child.
const EnterCommand = "instance-place"

// EnterOptions configure the folder and namespace of a child.
type EnterOptions struct {
	Size     int64    // of all that the tool writes, in bytes
	UID, GID int      // of the tool, if we are root; 0: ours
	Errored  string   // file for the state that cannot be stored; "": none
	Show     []string // what the sandbox shows besides system files
	Inside   bool     // this process is in the namespace
}

// args returns the arguments of [EnterCommand] before the program.
func (o EnterOptions) args() []string {
	args := []string{EnterCommand, "--size", strconv.FormatInt(o.Size, 10)}
	if o.UID > 0 {
		args = append(args, "--uid", strconv.Itoa(o.UID), "--gid", strconv.Itoa(o.GID))
	}
	if o.Errored != "" {
		args = append(args, "--errored", o.Errored)
	}
	for _, name := range o.Show {
		args = append(args, "--show", name)
	}
	if o.Inside {
		args = append(args, "--inside")
	}
	return append(args, "--")
}

// ExecOptions are the settings that [Exec] applies before the tool runs. Zero means unset.
type ExecOptions struct {
	UID, GID  int
	Base, Dir string // Dir is in Base; links out of Base are refused
	Memory    int64  // bytes of data, per process
	FileSize  int64  // bytes, per file
	Processes int    // processes and threads of the user
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
