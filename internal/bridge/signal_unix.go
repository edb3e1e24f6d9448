// SPDX-License-Identifier: Apache-2.0

//go:build unix

package bridge

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// startForwarding starts a command and passes on the signals that okara gets,
// each exactly once: the tools take a second interrupt as "stop at once".
//
// On a terminal the command stays in okara's process group, and the terminal
// itself interrupts both; then those signals are not passed on. Elsewhere, in
// CI, it gets a group of its own, so that a signal to okara's whole group does
// not reach it twice. A signal then goes to the command alone, or to all of its group:
// a shell that waits for a tool passes nothing on, and a plugin of a tool must not be
// told what the tool is told.
func startForwarding(cmd *exec.Cmd, group bool) (stop func(), err error) {
	file, ok := cmd.Stdin.(*os.File)
	shared := ok && term.IsTerminal(int(file.Fd()))
	if !shared {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		return nil, err
	}
	var done sync.WaitGroup
	done.Go(func() {
		for s := range signals {
			if shared && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
				continue
			}
			// The process may have ended meanwhile, which Wait reports.
			if group && !shared {
				_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
			} else {
				_ = cmd.Process.Signal(s)
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		done.Wait()
	}, nil
}

// exitCode is the code of a program, or 128 and the signal that killed it, as
// shells have it.
func exitCode(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return e.ExitCode()
}
