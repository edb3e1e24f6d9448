// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// rivalsVar enables tests with applies that wait for one another.
const rivalsVar = "OKARA_TEST_RIVALS"

func needRivals(t *testing.T) {
	t.Helper()
	if os.Getenv(rivalsVar) == "" {
		t.Skip(rivalsVar + " is not set; `make interop` sets it: the tools look every 16 s for a lock that is held, so this takes minutes, too long for `make test`")
	}
}

// logged returns a command that writes to a file when it begins and when it ends.
func (c *cloud) logged(who, log string) string {
	return fmt.Sprintf("echo enter %s >>%s; sleep 0.3; echo leave %[1]s >>%[2]s", who, log)
}

var versionLine = regexp.MustCompile(`(?m)^[0-9]+ `)

// versions counts the versions of acme/shop.
func (c *cloud) versions(registry string) int {
	c.t.Helper()
	history := must(c.okara("state", "history", registry+"/state/acme", "-w", "shop"))(c.t)
	return len(versionLine.FindAllString(history, -1))
}

// unlocked checks that the organization has no locks.
func (c *cloud) unlocked(registry string) {
	c.t.Helper()
	if out, err := c.okara("state", "locks", registry+"/state/acme"); err != nil || strings.TrimSpace(out) != "" {
		c.t.Errorf("locks that are left: %v\n%s", err, out)
	}
}

// held makes a folder whose apply stays while a file exists, and says when it is inside.
func (c *cloud) held(folder string) (hold, inside string) {
	c.t.Helper()
	hold, inside = filepath.Join(c.dir, folder+".hold"), filepath.Join(c.dir, folder+".inside")
	c.folder(folder, "cloud", `name = "shop"`, fmt.Sprintf("touch %s; n=0; while test -e %s && test $n -lt 3000; do sleep 0.1; n=$((n+1)); done", inside, hold))
	succeed(c.t, os.WriteFile(hold, nil, 0o600))
	return hold, inside
}

// ended is the result of a command that ran in the background.
type ended struct {
	out string
	err error
}

// begin starts an apply and waits until it is inside.
func (c *cloud) begin(folder, server, inside string) <-chan ended {
	c.t.Helper()
	done := make(chan ended, 1)
	go func() {
		out, err := c.run(folder, server, "apply", "-auto-approve", "-var", "text="+folder)
		done <- ended{out, err}
	}()
	for until := time.Now().Add(startLimit); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(inside); err == nil {
			return done
		}
		if time.Now().After(until) {
			c.t.Fatalf("%s: the apply was not inside within %s", folder, startLimit)
		}
	}
}

func (c *cloud) release(hold string) {
	c.t.Helper()
	succeed(c.t, os.Remove(hold))
}

// TestCloudOvertaken ends the lock of an apply by force, and the other tool applies. The
// successor's state is kept, and the overtaken apply writes its own to a file.
//
// Shows: cloud 5
// Shows: cloud 7 | a lock that is forcibly ended during an apply, also between snapshots
func TestCloudOvertaken(t *testing.T) { eachTool(t, testCloudOvertaken) }

// TestCloudSnapshotsOvertaken is TestCloudOvertaken for an apply that stores a state every 20
// seconds, the minimum of the tools: one before its lock is ended, and none afterwards.
//
// Shows: cloud 7
// Shows: cloud 13
func TestCloudSnapshotsOvertaken(t *testing.T) {
	needRivals(t)
	eachTool(t, func(t *testing.T, c *cloud) {
		c.snapshots = "1s"
		testCloudOvertaken(t, c)
	})
}

// slowly adds steps of 21 seconds before and after the held one.
func (c *cloud) slowly(folder string) {
	c.t.Helper()
	main := filepath.Join(c.dir, folder, "main.tf")
	text := must(os.ReadFile(main))(c.t)
	var steps strings.Builder
	for i, after := range map[int]string{0: "start", 2: "one", 3: "step2", 4: "step3"} {
		fmt.Fprintf(&steps, "resource \"terraform_data\" \"step%d\" {\n  input = terraform_data.%s.id\n  provisioner \"local-exec\" {\n    command = \"sleep 21\"\n  }\n}\n", i, after)
	}
	steps.WriteString("resource \"terraform_data\" \"start\" {}\n")
	const held = `resource "terraform_data" "one" {`
	succeed(c.t, os.WriteFile(main, []byte(strings.Replace(string(text), held, steps.String()+held+"\n  depends_on = [terraform_data.step0]", 1)), 0o644))
}

func testCloudOvertaken(t *testing.T, c *cloud) {
	registry := c.registry()
	_, at := c.serve("one", registry, "127.0.0.1:0")
	other := c.other()
	hold, inside := c.held("first")
	if c.snapshots != "" {
		c.slowly("first")
	}
	c.folder("second", "cloud", `name = "shop"`, "true")
	c.must("first", at, "init")
	other.must("second", at, "init")
	first := c.begin("first", at, inside)
	if c.snapshots != "" && c.versions(registry) < 1 {
		t.Error("no version was stored while the apply ran")
	}
	out, err := other.run("second", at, "plan")
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != 1 || !strings.Contains(out, "lock") {
		t.Errorf("a second command is not kept out: %v\n%s", err, out)
	}
	other.must("second", at, "force-unlock", "-force", "acme/shop")
	other.must("second", at, "apply", "-auto-approve", "-var", "text=second")
	stored := c.versions(registry)
	c.release(hold)
	if e := <-first; e.err == nil {
		t.Errorf("the overtaken apply believes that it is done:\n%s", e.out)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "first", "errored.tfstate")); err != nil {
		t.Error(err)
	}
	if got := c.versions(registry); got != stored {
		t.Errorf("the overtaken apply stored %d versions more", got-stored)
	}
	if got := other.must("second", at, "output", "-no-color", "-raw", "text"); got != "second" {
		t.Errorf("the state is that of %q", got)
	}
	other.must("second", at, "plan", "-detailed-exitcode", "-var", "text=second")
}

// TestCloudServerKilled kills the server during an apply. Another one at its address takes
// over, and only a gap in the version numbers is visible.
//
// Shows: cloud 8 | kill -9 after the lock, and before and after the upload; requests go to several
// servers in turn
func TestCloudServerKilled(t *testing.T) { eachTool(t, testCloudServerKilled) }

func testCloudServerKilled(t *testing.T, c *cloud) {
	registry := c.registry()
	server, at := c.serve("one", registry, "127.0.0.1:0")
	hold, inside := c.held("first")
	c.must("first", at, "init")
	first := c.begin("first", at, inside)
	server.kill()
	c.serve("two", registry, at)
	c.release(hold)
	if e := <-first; e.err != nil {
		t.Errorf("%v\n%s", e.err, e.out)
	}
	c.unlocked(registry)
	c.must("first", at, "plan", "-detailed-exitcode", "-var", "text=first")
}
