// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/mutant"
)

// mutants each remove a guard of the sandbox; run names the tests that fail.
func mutants() []struct{ name, file, old, mutant, pkg, run string } {
	const dir, enter, bwrap = "../sandbox/workdir.go", "../sandbox/enter_linux.go", "../sandbox/isolation.go"
	const exec, tool = "../sandbox/limits_linux.go", "../sandbox/running_linux.go"
	const box, kid, own = "../sandbox", "../child", "."
	return []struct{ name, file, old, mutant, pkg, run string }{
		{"no namespaces of users", bwrap, `"--disable-userns", `, ``, own, "TestSandboxSees"},
		{"a namespace of processes", bwrap, `"--unshare-pid", `, ``, own, "TestSandboxSees|TestSandboxLeavesNothing"},
		{"the storage is hidden", bwrap, `if isCovered(dir, slices.Concat(shown, o.Isolation.Show)) {`, `if false {`, own, "TestSandboxSees"},
		{"devices are not written to", bwrap, `"--remount-ro", "/dev", `, ``, own, "TestSandboxSees"},
		{"the root is not written to", bwrap, `"--remount-ro", "/", `, ``, own, "TestSandboxSees"},
		{"another user where we are root", tool, `uid > 0 && t.o.Isolation.Mode == ModeSandbox {`, `uid < 0 {`, own, "TestSandboxSees"},
		{"processes of a run", bwrap, `args = append(args, "--processes", strconv.Itoa(n))`, `_ = n`, own, "TestRunsApart"},
		{"what is given is not written to", dir, `"--ro-bind", at(Given)`, `"--bind", at(Given)`, own, "TestSandboxSees"},
		{"the size is the kernel's", enter, `unix.MS_NOSUID|unix.MS_NODEV, data)`, `unix.MS_NOSUID|unix.MS_NODEV, data[len(data):])`, own, "TestSandboxBudget"},
		{"shared memory is of the run", dir, `"--bind", at(share), Mount, `, ``, own, "TestSandboxSees|TestSandboxBudget"},
		{"no capability of another user", exec, `unix.PR_CAPBSET_DROP, c,`, `unix.PR_CAPBSET_READ, c,`, box, "TestOwnUser"},
		{"no new privileges of another user", exec, `unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))`, `nil)`, box, "TestOwnUser"},
		{"no link on the way in", exec, `unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS`, `0`, box, "TestEnter"},
		{"the size of files", bwrap, `"--file-size", strconv.FormatInt(o.maxScratch(), 10)`, `"--file-size", strconv.FormatInt(1<<40, 10)`, box, "TestLimits"},
		{"nothing that was left open", tool, `unix.CloseRange(3,`, `unix.CloseRange(1<<30,`, own, "TestSandboxFiles"},
		{"no keys of the server", exec, `if err := leaveKeys(); err != nil {`, `if err := error(nil); err != nil {`, box, "TestKeyring"},
		{"uploads that encrypt", "../child/remote.go", `CheckUploaded(dir, overrideFile, o.AllowEncryption)`, `CheckUploaded(dir, overrideFile, true)`, kid, "TestRemoteEncryption"},
		{"states of applies alone", "../child/lock.go", "if !c.Order.Changes() {\n\t\treturn nil\n\t}\n\tn :=", "n :=", kid, "TestErroredOfPlans"},
		{"what runs is not tidied", "folders.go", `m.At >= asOf.Unix() || l.isRunning(dir, m) {`, `m.At >= asOf.Unix() {`, own, "TestTidy"},
		{"what began since is not tidied", "folders.go", `m.At >= asOf.Unix() || l.isRunning(dir, m) {`, `l.isRunning(dir, m) {`, own, "TestTidy"},
		{"no names afterwards", dir, `if w.begun.Load() {
		return errBegun`, `if false {
		return errBegun`, box, "TestNoNamesAfterwards"},
		{"no link on the way to a file", dir, "if !info.IsDir() {\n\t\t\treturn fmt", "if info == nil {\n\t\t\treturn fmt", box, "TestPlantedInWorkdir"},
		{"regular files", dir, "if !info.Mode().IsRegular() {", "if false {", box, "TestPlantedInWorkdir"},
		{"a file of our own", dir, `if err := w.root.Remove(name); err != nil`, `if err := error(nil); err != nil`, box, "TestPlantedInWorkdir"},
		{"the size of a file", dir, `if info.Size() > limit {`, `if limit = info.Size(); false {`, box, "TestReadBounds"},
		{"no state that is a link", "../sandbox/errored.go", `!info.Mode().IsRegular() ||`, ``, box, "TestErrored"},
	}
}

// TestMutants removes one guard after the other and expects the tests to fail.
//
// Shows: platform-attacks 11 | a protection of the sandbox that is removed
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			g := mutant.Guard{File: m.file, Old: m.old, New: m.mutant}
			tests := []string{"-v", "-run", "^(" + m.run + ")$", m.pkg}
			g.Whole(t, tests...)
			g.Check(t, tests...)
		})
	}
}
