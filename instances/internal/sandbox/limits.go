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
