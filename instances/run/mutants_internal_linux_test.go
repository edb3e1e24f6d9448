// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants take one guard each from the sandbox; run names the tests that must fail
// then. Files are of this package, or by their way from it.
func mutants() []struct{ name, file, old, mutant, pkg, run string } {
	const dir, place = "../sandbox/workdir.go", "../sandbox/place_linux.go"
	const box, own = "../sandbox", "."
	return []struct{ name, file, old, mutant, pkg, run string }{
		{"no namespaces of users", "isolation.go", `"--disable-userns", `, ``, own, "TestSandboxSees"},
		{"a namespace of processes", "isolation.go", `"--unshare-pid", `, ``, own, "TestSandboxSees|TestSandboxLeavesNothing"},
		{"the storage is hidden", "isolation.go", `if covered(dir, slices.Concat(shown, o.Isolation.Show)) {`, `if false {`, own, "TestSandboxSees"},
		{"devices are not written to", "isolation.go", `"--remount-ro", "/dev", `, ``, own, "TestSandboxSees"},
		{"the root is not written to", "isolation.go", `"--remount-ro", "/", `, ``, own, "TestSandboxSees"},
		{"another user where we are root", "process_tool_linux.go", `uid > 0 && t.o.Isolation.Mode == Sandbox {`, `uid < 0 {`, own, "TestSandboxSees"},
		{"processes of a run", "isolation.go", `args = append(args, "--processes", strconv.Itoa(n))`, `_ = n`, own, "TestRunsApart"},
		{"what is given is not written to", dir, `"--ro-bind", at(Given)`, `"--bind", at(Given)`, own, "TestSandboxSees"},
		{"the size is the kernel's", place, `unix.MS_NOSUID|unix.MS_NODEV, data)`, `unix.MS_NOSUID|unix.MS_NODEV, data[len(data):])`, own, "TestSandboxBudget"},
		{"shared memory is of the run", dir, `"--bind", at(share), Mount, `, ``, own, "TestSandboxSees|TestSandboxBudget"},
		{"no capability of another user", "limits_linux.go", `unix.PR_CAPBSET_DROP, c,`, `unix.PR_CAPBSET_READ, c,`, own, "TestOwnUser"},
		{"no new privileges of another user", "limits_linux.go", `unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))`, `nil)`, own, "TestOwnUser"},
		{"no link on the way in", "limits_linux.go", `unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS`, `0`, own, "TestEnter"},
		{"the size of files", "isolation.go", `"--file-size", strconv.FormatInt(o.Spec.Limits.scratch(), 10)`, `"--file-size", strconv.FormatInt(1<<40, 10)`, own, "TestLimits"},
		{"nothing that was left open", "process_tool_linux.go", `unix.CloseRange(3,`, `unix.CloseRange(1<<30,`, own, "TestSandboxFiles"},
		{"no keys of the server", "limits_linux.go", `if err := leaveKeys(); err != nil {`, `if err := error(nil); err != nil {`, own, "TestKeyring"},
		{"uploads that encrypt", "child_remote.go", `if !o.AllowEncryption {`, `if false {`, own, "TestRemoteEncryption"},
		{"states of applies alone", "child_lock.go", "if !c.Order.Spec.changes() {\n\t\treturn nil\n\t}\n\tn :=", "n :=", own, "TestErroredOfPlans"},
		{"what runs is not tidied", "local_folders.go", `m.At >= asOf.Unix() || l.running(dir, m) {`, `m.At >= asOf.Unix() {`, own, "TestTidy"},
		{"what began since is not tidied", "local_folders.go", `m.At >= asOf.Unix() || l.running(dir, m) {`, `l.running(dir, m) {`, own, "TestTidy"},
		{"no names afterwards", dir, `if w.begun.Load() {
		return errBegun`, `if false {
		return errBegun`, box, "TestNoNamesAfterwards"},
		{"no link on the way to a file", dir, "if !info.IsDir() {\n\t\t\treturn fmt", "if info == nil {\n\t\t\treturn fmt", box, "TestPlantedInWorkdir"},
		{"regular files", dir, "if !info.Mode().IsRegular() {", "if false {", box, "TestPlantedInWorkdir"},
		{"a file of our own", dir, `if err := w.root.Remove(name); err != nil`, `if err := error(nil); err != nil`, box, "TestPlantedInWorkdir"},
		{"the size of a file", dir, `if info.Size() > most {`, `if most = info.Size(); false {`, box, "TestReadBounds"},
		{"no state that is a link", "../sandbox/errored.go", `!info.Mode().IsRegular() ||`, ``, box, "TestErrored"},
	}
}

// TestMutants takes one guard after the other away and wants the tests to fail. Each
// needs a build, so that they run by OKARA_TEST_MUTANTS only; that there is such a
// guard is looked at always.
func TestMutants(t *testing.T) {
	really := os.Getenv("OKARA_TEST_MUTANTS") != ""
	for _, m := range mutants() {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			src, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(src), m.old); n != 1 {
				t.Fatalf("%s has the guard %d times", m.file, n)
			}
			if !really {
				return
			}
			if out, err := mutate(t, m.pkg, m.run, m.file, string(src)); err != nil {
				t.Fatalf("without a mutant: %v: %s", err, out)
			} else if strings.Contains(string(out), "--- SKIP") {
				t.Skipf("this machine cannot tell: %s", out)
			}
			if out, err := mutate(t, m.pkg, m.run, m.file, strings.Replace(string(src), m.old, m.mutant, 1)); err == nil {
				t.Errorf("no test fails: %s", out)
			} else if strings.Contains(string(out), "[build failed]") {
				t.Errorf("it does not build: %s", out)
			}
		})
	}
}

// mutate runs tests of a package with another content of a file.
func mutate(t *testing.T, pkg, run, file, content string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{changed: []byte(content), overlay: body} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-v", "-overlay", overlay, "-run", "^("+run+")$", pkg)
	return c.CombinedOutput()
}
