// SPDX-License-Identifier: Apache-2.0

package localexec

// machine is where the id of a process means something: names of hosts repeat,
// and ids repeat after a boot and in another namespace.
type machine struct {
	Host      string `json:"host"`
	Boot      string `json:"boot"`      // id of the boot of the kernel
	Namespace string `json:"namespace"` // of process ids
}

// process is one process for ever.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks of the clock since the boot
}
