// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestOrphan checks that a provider ends with the tool that started it, so that it does
// not keep renewing the lease of a killed run. Here the tool is a shell that only starts
// it.
//
// Shows: jobs 6a
func TestOrphan(t *testing.T) {
	tool := exec.Command("/bin/sh", "-c", `"$0" & echo $!; read -r end`, programFile())
	tool.Env = []string{"TF_PLUGIN_MAGIC_COOKIE=d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2", "PLUGIN_PROTOCOL_VERSIONS=6", "HOME=" + t.TempDir()}
	in := must.Get(tool.StdinPipe())(t)
	defer in.Close()
	out := must.Get(tool.StdoutPipe())(t)
	must.Succeed(t, tool.Start())
	pid, handshake := 0, false
	buffer := make([]byte, 4096)
	var text string
	for pid == 0 || !handshake {
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		text += string(buffer[:n])
		for line := range strings.Lines(text) {
			if number, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
				pid = number
			}
			handshake = handshake || strings.HasPrefix(line, "1|6|unix|")
		}
	}
	must.Succeed(t, tool.Process.Kill())
	_ = tool.Wait() // it was killed
	for end := time.Now().Add(5 * time.Minute); runs(pid); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the provider goes on without its tool")
		}
	}
}

// runs reports whether a process is running. A zombie does not count.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(b), ") ")
	return err != nil || !ok || state[0] != 'Z'
}
