// SPDX-License-Identifier: Apache-2.0

package sandbox

import "strconv"

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
