// SPDX-License-Identifier: Apache-2.0

package sandbox

import "io"

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

// Running is a running command of the tool, with all processes that it started.
type Running struct{ tool *tool }

// Start starts a command of the tool with the order's isolation. The caller must wait for
// it. On other systems than Linux the error is errors.ErrUnsupported.
func (o *Order) Start(dir *Workdir, c Command) (*Running, error) {
	t, err := o.start(dir, c)
	if err != nil {
		return nil, err
	}
	return &Running{t}, nil
}

// Interrupt asks the tool to end in order, like Ctrl-C on a terminal. It does so only
// once: a second interrupt would end the tool at once, without storing a state.
func (r *Running) Interrupt() error { return r.tool.interrupt() }

// Kill kills the tool and all processes that it started.
func (r *Running) Kill() error { return r.tool.kill() }

// Wait waits until the tool has ended, kills its remaining processes, and returns its
// status like [exec.Cmd.Wait], or that it filled its folder. All output was passed on by
// then.
func (r *Running) Wait() error { return r.tool.wait() }
