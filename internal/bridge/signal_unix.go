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

// startForwarding starts a command and forwards the signals that okara gets, each
// exactly once: the tools take a second interrupt as "stop at once".
//
// On a terminal the command stays in okara's process group, and the terminal itself
// interrupts both; then those signals are not forwarded. Elsewhere, as in CI, the
// command gets a separate group, so that a signal to okara's whole group does not reach
// it twice. A forwarded signal goes to the command alone or, with group, to its whole
// group: a shell that waits for a tool forwards nothing, while a plugin of a tool must
// not get the tool's signals.
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

// exitCode returns a program's exit code, or 128 plus its signal, like a shell.
func exitCode(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return e.ExitCode()
}
