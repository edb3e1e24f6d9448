// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package bridge

import (
	"os"
	"os/exec"
	"os/signal"
)

// startForwarding starts a command. The console interrupts both; okara must not end first.
func startForwarding(cmd *exec.Cmd, _ bool) (stop func(), err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		return nil, err
	}
	return func() { signal.Stop(signals) }, nil
}

// endWithParent does nothing: this system offers no such mechanism without a service.
func endWithParent(*os.Process) (end func()) { return func() {} }

func exitCode(e *exec.ExitError) int { return e.ExitCode() }
