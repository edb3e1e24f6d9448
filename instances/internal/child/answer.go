// SPDX-License-Identifier: Apache-2.0

package child

import (
	"io"
	"os"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// Answer runs the tool with the order's question, and writes its output to out, which
// ends with [sandbox.Answered] if the tool succeeded. env is the environment of the tool,
// without what depends on its folder.
func Answer(o sandbox.Order, env []string, out io.Writer) error {
	dir, err := o.Open()
	if err != nil {
		return err
	}
	t, err := o.Start(dir, sandbox.Command{
		Args: o.Ask, Dir: sandbox.Tool, Stdout: out, Stderr: out,
		Env: append(env, "HOME="+string(dir.Inside(sandbox.Tool)), "TMPDIR="+string(dir.Inside(sandbox.Temp)), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull),
	})
	if err != nil {
		return err
	}
	if err := t.Wait(); err != nil {
		return err
	}
	_, err = io.WriteString(out, sandbox.Answered)
	return err
}
