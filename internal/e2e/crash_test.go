// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Steps at which something is killed; in source, result and unlock no tool runs.
var (
	childSteps = []string{"source", "init", "plan", "between", "apply", "result", "unlock", "destroy"}
	toolSteps  = []string{"init", "plan", "between", "apply", "destroy"}
)

// crash is one instance, with a process of its run killed at a step.
type crash struct {
	*crashWorld
	name, victim, step string

	id       string
	child    int             // process ID of the first attempt
	reported map[string]bool // why it waited
	err      error
}

// TestCrash kills server, child and tool at each step: the run ends, the state is what exists, and
// nothing is left. OKARA_TEST_TOFU, set by `make interop`, is the tool, or the pinned one.
//
// Shows: crash K4 | the server, while the child lives, at eight steps
// Shows: crash K7 | the child, at eight steps
// Shows: crash K8 | the tool, at five steps
// Shows: crash K11 | the server during destroy
// Shows: instances 5 | an attempt runs once, and a killed attempt loses nothing that it created
func TestCrash(t *testing.T) {
	set := must(findTools())(t)
	testCrash(t, set.tofu)
}

func testCrash(t *testing.T, program string) {
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		w := newCrashWorld(t, program)
		w.crashServer(w.crashes("server", childSteps))
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		w := newCrashWorld(t, program)
		w.crashRuns(append(w.crashes("child", childSteps), w.crashes("tool", toolSteps)...))
	})
}

// TestCrashTerraform is the same with terraform; `make test` only tests tofu.
func TestCrashTerraform(t *testing.T) {
	needInterop(t, "OKARA_TEST_CRASH")
	needTerraform(t)
	program := must(exec.LookPath("terraform"))(t)
	testCrash(t, program)
}

// crashes publishes a module and a template for each step.
func (w *crashWorld) crashes(victim string, steps []string) []*crash {
	w.t.Helper()
	var list []*crash
	for _, step := range steps {
		c := &crash{crashWorld: w, name: victim + "-" + step, victim: victim, step: step, reported: map[string]bool{}}
		host, _, _ := strings.Cut(w.registry, "/")
		fill := strings.NewReplacer("CASE", c.name, "HOST", host, "DIR", w.dir, "INPUT", plantedInput,
			"APPLY", gateScript(w.dir, c.name, "apply"), "DESTROY", gateScript(w.dir, c.name, "destroy"))
		writeFile(w.t, w.path("modules", c.name, "main.tf"), fill.Replace(crashModule))
		writeFile(w.t, w.path("templates", c.name+".hcl"), fill.Replace(crashTemplate))
		must(w.okaraCommand("publish", "module", w.path("modules", c.name), "acme/"+c.name+"/any", "1.0.0"))(w.t)
		list = append(list, c)
	}
	return list
}

// each calls do for all crashes at once, and reports which failed.
func each(t *testing.T, list []*crash, what string, do func(*crash) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, c := range list {
		if c.err == nil {
			wg.Go(func() { c.err = do(c) })
		}
	}
	wg.Wait()
	for _, c := range list {
		if c.err != nil {
			t.Errorf("%s, %s: %v", c.name, what, c.err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// crashServer kills the server while runs wait at every step; the next one reads the results.
func (w *crashWorld) crashServer(list []*crash) {
	w.mustStart()
	each(w.t, list, "before the crash", (*crash).reach)
	w.server.kill()
	each(w.t, list, "without a server", func(c *crash) error {
		if err := c.open(c.name, c.step); err != nil {
			return err
		}
		return until("the end of the child", func() (bool, error) { return !lives(c.child), nil })
	})
	w.mustStart()
	each(w.t, list, "afterwards", (*crash).recover)
	w.checkRest()
}

// crashRuns kills the child or the tool of each run.
func (w *crashWorld) crashRuns(list []*crash) {
	w.mustStart()
	each(w.t, list, "a run that is killed", func(c *crash) error {
		if err := c.reach(); err != nil {
			return err
		}
		pid := c.child
		if c.victim == "tool" {
			var err error
			if pid, err = c.pid(c.id, "tool.json"); err != nil {
				return err
			}
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		if err := errors.Join(until("its death", func() (bool, error) { return !lives(pid), nil }), c.open(c.name, c.step)); err != nil {
			return err
		}
		return c.recover()
	})
	w.checkRest()
}

func (w *crashWorld) mustStart() {
	w.t.Helper()
	if err := w.start(); err != nil {
		w.t.Fatalf("%v\n%s", err, w.logs)
	}
}

// lives reports whether a process runs; a zombie does not.
func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(b), ") ")
	return err == nil && ok && state[0] != 'Z' && state[0] != 'X'
}

// reach launches the instance and waits until its run is at the step.
func (c *crash) reach() error {
	apply := c.step != "destroy"
	if apply {
		if err := c.shut(c.name, c.step); err != nil {
			return err
		}
	}
	if err := until("the template", func() (bool, error) {
		status, _, err := c.call(http.MethodGet, "templates/crash/"+c.name, "")
		return status == http.StatusOK, err
	}); err != nil {
		return err
	}
	status, b, err := c.call(http.MethodPost, "instances", fmt.Sprintf(`{"template":"crash/%s"}`, c.name))
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("create: %d %s %v", status, b, err)
	}
	var made struct{ ID string }
	if err := json.Unmarshal(b, &made); err != nil {
		return err
	}
	c.id = made.ID
	if !apply {
		if err := errors.Join(c.await("ready"), c.shut(c.name, c.step)); err != nil {
			return err
		}
		if err := c.destroy(); err != nil {
			return err
		}
	}
	if err := until("the run at its step", func() (bool, error) { return exists(c.gate(c.name, c.step, "here")), c.sound() }); err != nil {
		return err
	}
	if c.child, err = c.pid(c.id, "process.json"); err != nil {
		err = fmt.Errorf("%w: %q", err, slices.Sorted(maps.Keys(c.reported)))
	}
	return err
}

func (c *crash) destroy() error {
	status, b, err := c.call(http.MethodDelete, "instances/"+c.id, "")
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("destroy: %d %s", status, b)
	}
	return err
}

// show returns the phase of the instance, and why it waits.
func (c *crash) show() (phase, reason string, err error) {
	status, b, err := c.call(http.MethodGet, "instances/"+c.id, "")
	if err != nil || status != http.StatusOK {
		return "", "", err // no leader yet
	}
	var doc struct {
		Phase, Reason string
		Conditions    []struct{ Message string }
	}
	err = json.Unmarshal(b, &doc)
	for _, one := range doc.Conditions {
		c.reported[one.Message] = true
	}
	return doc.Phase, doc.Reason, err
}

// sound returns an error if the instance has failed permanently.
func (c *crash) sound() error {
	phase, reason, err := c.show()
	if err == nil && (phase == "failed" || phase == "destroy_failed") {
		_, log, _ := c.call(http.MethodGet, "instances/"+c.id+"/runs/1/log", "") // as far as it exists
		err = fmt.Errorf("%s: %s\n%s", phase, reason, log)
	}
	return err
}

func (c *crash) await(want string) error {
	var phase, reason string
	err := until(want, func() (bool, error) {
		var err error
		phase, reason, err = c.show()
		if err == nil && phase != want {
			err = c.sound()
		}
		return phase == want, err
	})
	if err != nil {
		err = fmt.Errorf("%w; it is %s, %s; it was told %q", err, phase, reason, slices.Sorted(maps.Keys(c.reported)))
	}
	return err
}

// recover waits for the run's end, compares state and files, and destroys.
func (c *crash) recover() error {
	if c.step == "destroy" {
		return errors.Join(c.await("destroyed"), c.compare(), c.attempts(2, c.victim != "server"), c.readLog(2))
	}
	if err := errors.Join(c.await("ready"), c.readLog(1), c.compare(), c.madeOnce(), c.attempts(1, c.victim != "server" && c.step != "result" && c.step != "unlock")); err != nil {
		return err
	}
	return errors.Join(c.destroy(), c.await("destroyed"), c.compare())
}

// readLog reads a run's log, with printed secrets; an ended instance's may be gone.
func (c *crash) readLog(n int) error {
	status, b, err := c.call(http.MethodGet, fmt.Sprintf("instances/%s/runs/%d/log", c.id, n), "")
	switch {
	case err != nil:
	case n == 2 && (status == http.StatusNotFound || status == http.StatusOK): // the record is shortened, or will be
	case status != http.StatusOK || !strings.Contains(string(b), "terraform_data.a"):
		err = fmt.Errorf("log of run %d: %d %s", n, status, b)
	}
	return err
}

// compare compares the IDs that the state lists with those that exist.
func (c *crash) compare() error {
	b, err := c.okaraCommand("state", "pull", c.registry+"/instances/crash/"+c.name+"/"+c.id)
	if err != nil {
		return err
	}
	var state struct {
		Resources []struct {
			Mode, Name string
			Instances  []struct{ Attributes struct{ ID string } }
		}
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return err
	}
	listed, real := map[string]string{}, map[string]string{}
	for _, r := range state.Resources {
		for _, i := range r.Instances {
			if r.Mode == "managed" {
				listed[r.Name] = i.Attributes.ID
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		if b, err := os.ReadFile(c.path(c.name + "." + name)); err == nil {
			real[name] = strings.TrimSpace(string(b))
		}
	}
	if !maps.Equal(listed, real) {
		return fmt.Errorf("the state lists %v, and there is %v", listed, real)
	}
	return nil
}

// madeOnce: nothing was made twice, but by a tool killed before it stored.
func (c *crash) madeOnce() error {
	if c.victim == "tool" && c.step == "apply" {
		return nil
	}
	b, err := os.ReadFile(c.path(c.name + ".a.made"))
	if n := strings.Count(string(b), "\n"); err != nil || n != 1 {
		return fmt.Errorf("a was made %d times, %v", n, err)
	}
	return nil
}

// attempts checks that a run had a second attempt only if another says so, as after a kill.
func (c *crash) attempts(n int, another bool) error {
	status, b, err := c.call(http.MethodGet, fmt.Sprintf("instances/%s/runs/%d", c.id, n), "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("run %d: %d %s %v", n, status, b, err)
	}
	var run struct{ Attempt int }
	if err := json.Unmarshal(b, &run); err != nil {
		return err
	}
	want := 1
	if another {
		want = 2
	}
	if run.Attempt != want {
		return fmt.Errorf("run %d took %d attempts, want %d: %q", n, run.Attempt, want, slices.Sorted(maps.Keys(c.reported)))
	}
	return nil
}

// checkRest looks for leftovers of all runs: processes, folders, secrets.
func (w *crashWorld) checkRest() {
	w.t.Helper()
	if err := w.server.stop(); err != nil {
		w.t.Errorf("the server: %v", err)
	}
	for _, pid := range w.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the process may end meanwhile
		w.t.Errorf("process %d is left: %q", pid, line)
	}
	if left, err := filepath.Glob(w.path("storage", "runs", "*", "*")); err != nil || len(left) > 0 {
		w.t.Errorf("folders of runs are left: %v, %v", left, err)
	}
	w.checkSecrets()
}

// checkSecrets looks for the planted secrets in everything that servers wrote and answered.
func (w *crashWorld) checkSecrets() {
	w.t.Helper()
	ledger := must(w.okaraCommand("state", "pull", "-w", "ledger", w.registry+"/ledger"))(w.t)
	audit := must(os.ReadFile(w.path("audit")))(w.t)
	answers := w.answers.String()
	if !strings.Contains(answers, "(sensitive) (sensitive)") || !strings.Contains(string(audit), "crash/") || !strings.Contains(string(ledger), "crash/") {
		w.t.Error("the secrets were not even in use")
	}
	texts := map[string]string{"answers": answers, "audit log": string(audit), "ledger": string(ledger)}
	for i, log := range w.logs {
		texts[fmt.Sprintf("log of server %d", i+1)] = log.String()
	}
	// The ledger, which is read here with the keys, contains the template's text.
	for _, secret := range []string{plantedStateKey, plantedCredential, plantedInput, crashToken, "okr_"} {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if i := strings.Index(texts[name], secret); i >= 0 && (name != "ledger" || secret != plantedInput) {
				w.t.Errorf("%q is in the %s: …%s", secret, name, texts[name][max(0, i-200):i])
			}
		}
	}
}
