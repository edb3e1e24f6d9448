// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// statesVar is a terraform that loads state storage from providers, as built by `make interop`.
const statesVar = "OKARA_TEST_STATES"

// storeBlock stores a state in the state store of okara's provider.
const storeBlock = `  required_providers {
    okara = {
      source = "okara.test/okara/okara"
    }
  }
  state_store "okara_oci" {
    provider "okara" {}
    repository = %q
%s  }
`

// newStore returns a home with okara's provider in a mirror, and OpenTofu.
func newStore(t testing.TB) (store, tofu *cloud) {
	t.Helper()
	set := must(findTools())(t)
	tofu = newCloud(t, set, set.tofu)
	mirror := filepath.Join(tofu.dir, "mirror")
	succeed(t, os.CopyFS(filepath.Join(mirror, "okara.test", "okara", "okara"), os.DirFS(set.provider)))
	s := *tofu
	s.tool = os.Getenv(statesVar)
	s.settings = fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	s.env = []string{"TF_ENABLE_PLUGGABLE_STATE_STORAGE=1"}
	return &s, tofu
}

// wrapper is the same home for `okara tofu`.
func (c *cloud) wrapper() *cloud {
	w := *c
	w.tool = c.set.okara
	w.before = []string{"-q", "tofu"}
	w.env = append([]string{"OKARA_TOFU=" + c.set.tofu}, c.env...)
	return &w
}

// TestStateStore is a day with the provider: saved plans, workspaces, forced locks.
func TestStateStore(t *testing.T) {
	needInterop(t, statesVar)
	c, _ := newStore(t)
	registry := c.registry()
	repository := registry + "/state/acme"
	c.configure("app", fmt.Sprintf(storeBlock, repository, ""), "true")
	c.must("app", "", "init")
	c.must("app", "", "plan", "-out=saved")
	c.must("app", "", "apply", "saved")
	c.must("app", "", "plan", "-detailed-exitcode")
	c.must("app", "", "apply", "-auto-approve", "-replace=terraform_data.one")
	if got := c.must("app", "", "state", "list"); strings.TrimSpace(got) != "terraform_data.one" {
		t.Errorf("state list: %q", got)
	}
	if got := c.must("app", "", "output", "-raw", "text"); got != "first" {
		t.Errorf("output %q", got)
	}
	for _, name := range []string{"stage", "a.b_c-d", "v2-v3", "ws-1", strings.Repeat("long", 22)} {
		c.must("app", "", "workspace", "new", name)
		c.must("app", "", "apply", "-auto-approve", "-var", "text="+name)
		if got := c.must("app", "", "output", "-raw", "text"); got != name {
			t.Errorf("workspace %s has %q", name, got)
		}
		list, err := c.okara("state", "list", repository)
		if err != nil || !strings.Contains(list, name) {
			t.Errorf("okara does not list %s: %s, %v", name, list, err)
		}
	}
	c.must("app", "", "workspace", "select", "default")
	c.must("app", "", "workspace", "delete", "-force", "stage")
	if got := c.must("app", "", "workspace", "list"); strings.Contains(got, "stage") || !strings.Contains(got, "a.b_c-d") {
		t.Errorf("workspaces: %s", got)
	}
	pulled := c.must("app", "", "state", "pull")
	got, err := c.okara("state", "pull", repository)
	if want := stateSerial.FindStringSubmatch(pulled); err != nil || !slices.Equal(stateSerial.FindStringSubmatch(got), want) || want == nil {
		t.Errorf("okara pulls %s, %v; want %s", got, err, pulled)
	}
	c.unlocked(registry)
	c.must("app", "", "apply", "-auto-approve", "-lock=false", "-var", "text=unlocked")
	c.forceUnlock(repository)
	c.must("app", "", "destroy", "-auto-approve")
	c.unlocked(registry)
}

// forceUnlock kills an apply, finds its lock and ends it.
func (c *cloud) forceUnlock(repository string) {
	c.t.Helper()
	pid := filepath.Join(c.dir, "pid")
	c.configure("killed", fmt.Sprintf(storeBlock, repository, ""), "echo $PPID >"+pid+"; sleep 1000")
	c.must("killed", "", "init")
	done := make(chan error, 1)
	go func() {
		_, err := c.run("killed", "", "apply", "-auto-approve", "-var", "text=killed")
		done <- err
	}()
	c.kill(pid, syscall.SIGKILL)
	if err := <-done; err == nil {
		c.t.Fatal("a killed apply succeeded")
	}
	out, err := c.run("app", "", "apply", "-auto-approve", "-no-color")
	plain := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", " ")), " ")
	_, id, _ := strings.Cut(plain, "lock id ")
	id, _, _ = strings.Cut(id, " ")
	if err == nil || id == "" || !strings.Contains(plain, "if that run is gone: okara state unlock ") {
		c.t.Fatalf("the lock of a killed run: %v\n%s", err, out)
	}
	c.must("app", "", "force-unlock", "-force", strings.TrimRight(id, ".,:"))
	c.must("app", "", "apply", "-auto-approve")
}

// kill waits until a file contains a process ID, and ends that process.
func (c *cloud) kill(file string, signal syscall.Signal) {
	c.t.Helper()
	pid := 0
	err := until("the process of "+filepath.Base(file), func() (bool, error) {
		b, _ := os.ReadFile(file) // not there yet
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 1, nil
	})
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestStateStoreRivals kills some of the applies inside: their lock is taken over after the lease,
// never two at once.
//
// Shows: jobs 6a | the same with the state store of okara's provider, and through four APIs
// concurrently ([state store](use/state-store.md)), by `make interop`
func TestStateStoreRivals(t *testing.T) {
	needInterop(t, statesVar)
	set := must(findTools())(t)
	for _, r := range sharedRegistries(t, set) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			c, _ := newStore(t)
			registry := r.start(c)
			log := filepath.Join(c.dir, "log")
			const kills = 2
			entered := c.storeRivals(registry, log, kills)
			checkSections(t, log, entered)
			c.unlocked(registry)
			if entered == rivals {
				t.Error("nobody was killed inside")
			}
		})
	}
}

// storeRivals runs applies, and repeats those killed; it returns how many were inside.
func (c *cloud) storeRivals(registry, log string, kills int) (entered int) {
	c.t.Helper()
	pid := func(rival int) string { return filepath.Join(c.dir, fmt.Sprintf("pid.%d", rival)) }
	for i := range rivals {
		where := fmt.Sprintf(storeBlock, registry+"/state/acme", "    lock_ttl     = \"30s\"\n    lock_timeout = \"30m\"\n")
		name := fmt.Sprint(i)
		c.configure(name, where, fmt.Sprintf("echo $PPID >%s; %s", pid(i), c.logged(name, log)))
		c.must(name, "", "init")
	}
	var group sync.WaitGroup
	var mu sync.Mutex // guards entered
	for i := range rivals {
		group.Go(func() {
			for attempt := 0; ; attempt++ {
				out, err := c.run(fmt.Sprint(i), "", "apply", "-auto-approve", "-var", fmt.Sprintf("text=%d-%d", i, attempt))
				mu.Lock()
				entered++
				mu.Unlock()
				if err == nil {
					return
				}
				if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != -1 { // not by a signal
					c.t.Errorf("rival %d: %v\n%s", i, err, out)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	for killed := map[int]bool{}; len(killed) < kills; time.Sleep(5 * time.Millisecond) {
		select {
		case <-done:
			return entered
		default:
		}
		if rival, inside := insider(log); inside && !killed[rival] {
			c.kill(pid(rival), syscall.SIGKILL)
			killed[rival] = true
		}
	}
	<-done
	return entered
}

// insider returns the apply that has entered and not left.
func insider(log string) (rival int, inside bool) {
	text, _ := os.ReadFile(log) // not there yet
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	who, inside := strings.CutPrefix(lines[len(lines)-1], "enter ")
	rival, err := strconv.Atoi(who)
	return rival, inside && err == nil
}

// TestStateStoreDoors lets the state store, the wrapper, `cloud` and the http backend contend
// for one workspace. It is one state with one lock.
//
// Shows: cloud 4 | one state through all APIs, in turn and concurrently
// Shows: jobs 6a
func TestStateStoreDoors(t *testing.T) {
	needInterop(t, statesVar)
	c, tofu := newStore(t)
	registry := c.registry()
	_, server := tofu.serve("one", registry, "127.0.0.1:0")
	log := filepath.Join(c.dir, "log")
	c.env = append(c.env, "TF_WORKSPACE=shop")
	named := *tofu
	named.env = []string{"TF_WORKSPACE=shop"}
	wrapper := named.wrapper()
	repository := registry + "/state/acme"
	url := "http://" + server + "/state/acme/shop"
	http := func(lock, method, unlock string) string {
		return fmt.Sprintf("  backend \"http\" {\n    address        = %q\n    lock_address   = %q\n    unlock_address = %[2]q\n    lock_method    = %q\n    unlock_method  = %q\n  }\n", url, lock, method, unlock)
	}
	doors := []struct {
		name, where string
		home        *cloud
	}{
		{"cloud", fmt.Sprintf(cloudBlock, "cloud", `name = "shop"`), tofu},
		{"store", fmt.Sprintf(storeBlock, repository, "    lock_timeout = \"30m\"\n"), c},
		{"store-2", fmt.Sprintf(storeBlock, repository, "    lock_timeout = \"30m\"\n"), c},
		{"wrapper", fmt.Sprintf("  backend \"oci\" {\n    repository = %q\n  }\n", repository), wrapper},
		{"http", http(url, "LOCK", "UNLOCK"), tofu},
		{"gitlab", http(url+"/lock", "POST", "DELETE"), tofu},
	}
	for i, d := range doors {
		d.home.configure(d.name, d.where, c.logged(d.name, log))
		d.home.must(d.name, server, "init")
		if i == 0 { // the workspace exists from now on
			d.home.must(d.name, server, "apply", "-auto-approve", "-var", "text=begin")
		}
	}
	const rounds = 3
	var group sync.WaitGroup
	for _, d := range doors {
		group.Go(func() {
			for round := range rounds {
				args := []string{"apply", "-auto-approve", "-lock-timeout=30m", "-var", fmt.Sprintf("text=%s-%d", d.name, round)}
				if out, err := d.home.run(d.name, server, args...); err != nil {
					t.Errorf("%s: %v\n%s", d.name, err, out)
				}
			}
		})
	}
	group.Wait()
	entries := 1 + rounds*len(doors)
	checkSections(t, log, entries)
	if got := tofu.versions(registry); got < entries { // each apply stores at least one state
		t.Errorf("%d versions of %d applies", got, entries)
	}
	want := doors[0].home.must("cloud", server, "output", "-no-color", "-raw", "text")
	for _, d := range doors[1:] {
		if got := d.home.must(d.name, server, "output", "-no-color", "-raw", "text"); got != want {
			t.Errorf("%s reads %q, cloud reads %q", d.name, got, want)
		}
	}
	c.unlocked(registry)
}

// TestStateStoreLease stops the registry during an apply: it is interrupted before another may take
// over.
func TestStateStoreLease(t *testing.T) {
	needInterop(t, statesVar)
	c, _ := newStore(t)
	cmd := must(c.set.registryCommand(filepath.Join(c.dir, "registry"), true))(t)
	registry, addr := mustBoth(start(cmd))(t)
	t.Cleanup(registry.kill)
	pid := filepath.Join(c.dir, "pid")
	ended := filepath.Join(c.dir, "ended")
	c.configure("app", fmt.Sprintf(storeBlock, addr+"/state/acme", "    lock_ttl = \"20s\"\n    retry = { max_attempts = 1 }\n"), fmt.Sprintf("echo $PPID >%s; sleep 600; : >%s", pid, ended))
	c.must("app", "", "init")
	done := make(chan error, 1)
	go func() {
		_, err := c.run("app", "", "apply", "-auto-approve")
		done <- err
	}()
	succeed(t, until("the apply", func() (bool, error) { return exists(pid), nil }))
	succeed(t, cmd.Process.Signal(syscall.SIGSTOP))
	finished := false
	err := until("the end of the apply", func() (bool, error) {
		select {
		case <-done:
			finished = true
		default:
		}
		return finished || exists(ended), nil
	})
	if contErr := cmd.Process.Signal(syscall.SIGCONT); err != nil || contErr != nil {
		t.Fatal(err, contErr)
	}
	if !finished {
		<-done
	}
	if exists(ended) {
		t.Error("the apply went on to its end without a lease")
	}
}

// TestStateStoreInterrupted: Terraform's state of completed work is stored, the lock released.
func TestStateStoreInterrupted(t *testing.T) {
	needInterop(t, statesVar)
	c, _ := newStore(t)
	registry := c.registry()
	pid := filepath.Join(c.dir, "pid")
	c.configure("app", fmt.Sprintf(storeBlock, registry+"/state/acme", ""), "echo $PPID >"+pid+"; sleep 600")
	writeFile(t, filepath.Join(c.dir, "app", "done.tf"), "resource \"terraform_data\" \"done\" {\n  input = \"done\"\n}\n")
	c.must("app", "", "init")
	done := make(chan error, 1)
	go func() {
		_, err := c.run("app", "", "apply", "-auto-approve")
		done <- err
	}()
	c.kill(pid, syscall.SIGINT)
	if err := <-done; err == nil {
		t.Error("an interrupted apply succeeded")
	}
	if got := c.must("app", "", "state", "list"); !strings.Contains(got, "terraform_data.done") {
		t.Errorf("the state has %q", got)
	}
	if exists(filepath.Join(c.dir, "app", "errored.tfstate")) {
		t.Error("the state was not stored")
	}
	c.unlocked(registry)
}

// TestStateStoreMigrate migrates a state from a file and from the http backend, and back.
func TestStateStoreMigrate(t *testing.T) {
	needInterop(t, statesVar)
	c, tofu := newStore(t)
	registry := c.registry()
	_, server := tofu.serve("one", registry, "127.0.0.1:0")
	const provider = "state_store_provider {\n  okara = {\n    source = \"okara.test/okara/okara\"\n  }\n}\n"
	store := func(name string) string { return fmt.Sprintf(storeBlock, registry+"/state/"+name, "") }
	from := func(name string) string {
		return provider + fmt.Sprintf("from {\n  state_store \"okara_oci\" {\n    provider \"okara\" {}\n    repository = %q\n  }\n}\n", registry+"/state/"+name)
	}
	url := "http://" + server + "/state/shop/prod"
	http := fmt.Sprintf("  backend \"http\" {\n    address        = %q\n    lock_address   = %[1]q\n    unlock_address = %[1]q\n    lock_method    = \"LOCK\"\n    unlock_method  = \"UNLOCK\"\n  }\n", url)
	local := "  backend \"local\" {\n    path = \"old.tfstate\"\n  }\n"
	file := filepath.Join(c.dir, "app", "main.tfmigrate.hcl")
	for _, step := range []struct{ name, where, from string }{
		{"local", local, ""},
		{"local to store", store("acme"), "from {\n" + local + "}\n"},
		{"store to store", store("other"), from("acme")},
		{"store to http", http, from("other")},
		{"http to store", store("third"), "from {\n" + http + "}\n"},
		{"store to local", local, from("third")},
	} {
		c.configure("app", step.where, "true")
		if step.from == "" {
			c.must("app", "", "init")
			c.must("app", "", "apply", "-auto-approve", "-var", "text=moved")
			continue
		}
		writeFile(t, file, step.from)
		_ = os.Remove(filepath.Join(c.dir, "app", "old.tfstate.backup"))
		if out, err := c.run("app", "", "state", "migrate", "-input=false", "-force-copy"); err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, out)
		}
		succeed(t, os.Remove(file))
		c.must("app", "", "init")
		if got := c.must("app", "", "output", "-raw", "text"); got != "moved" {
			t.Errorf("%s: output %q", step.name, got)
		}
		c.must("app", "", "plan", "-detailed-exitcode", "-var", "text=moved")
	}
	c.unlocked(registry)
}

// TestStateStoreServed: a registry serves the provider itself; okara writes the lock file.
func TestStateStoreServed(t *testing.T) {
	needInterop(t, statesVar)
	c, tofu := newStore(t)
	c.set.newKey(t)
	registry := c.registry()
	if out, err := tofu.okara("publish", "provider", c.set.provider, "okara/okara", "0.0.1", "--registry", registry, "--sign-key", c.set.key); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, server := tofu.serve("one", registry, "127.0.0.1:0")
	c.settings = ""
	c.services = fmt.Sprintf("    \"providers.v1\" = \"http://%s/v1/providers/\"\n", server)
	c.configure("app", fmt.Sprintf(storeBlock, registry+"/state/acme", ""), "true")
	if out, err := c.run("app", server, "init", "-input=false"); err == nil || !strings.Contains(out, "no lock was found for the state store provider") {
		t.Errorf("init without a lock file: %v\n%s", err, out)
	}
	if out, err := tofu.okara("lock", filepath.Join(c.dir, "app"), "--registry", registry); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.must("app", server, "init", "-input=false")
	c.must("app", server, "apply", "-auto-approve")
	c.unlocked(registry)
}
