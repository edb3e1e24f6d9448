// SPDX-License-Identifier: Apache-2.0

package sandbox

// ExecOptions are the settings that [Exec] applies before the tool runs. Zero means
// unset.
type ExecOptions struct {
	UID, GID  int
	Base, Dir string // Dir is in Base; links out of Base are refused
	Memory    int64  // bytes of data, per process
	FileSize  int64  // bytes, per file
	Processes int    // processes and threads of the user
}

// Exec changes the user of this process, sets limits, and executes another program with
// the arguments after its name in line. It returns only on error; on other systems than
// Linux the error is errors.ErrUnsupported.
func Exec(o ExecOptions, line, env []string) error { return execute(o, line, env) }

// Harden protects this process from others of its user: it writes no core dump, and its
// memory and environment are unreadable. Orphaned descendants become its children, so
// that they are found and ended. On other systems than Linux it does nothing.
func Harden() error { return harden() }
