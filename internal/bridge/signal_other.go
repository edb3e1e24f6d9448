// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package bridge

import (
	"os"
	"os/exec"
	"os/signal"
)

// startForwarding starts a command. The console interrupts okara and the
// command alike, so nothing is passed on; okara only must not end first.
func startForwarding(cmd *exec.Cmd, _ bool) (stop func(), err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		return nil, err
	}
	return func() { signal.Stop(signals) }, nil
}

// outlived is nothing that this system offers without a service of its own.
func outlived(*os.Process) (end func()) { return func() {} }

func exitCode(e *exec.ExitError) int { return e.ExitCode() }
