// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServeDemo tries okara serve --demo as both users: rights, approvals, a ready instance,
// nothing left.
func TestServeDemo(t *testing.T) {
	set := must(findTools())(t)
	d := newDemo(t, set)
	said := d.output
	ana, ben := said.People[0].Token, said.People[1].Token
	get := func(path, token string) (int, string) {
		t.Helper()
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, said.URL+path, nil))(t)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a := must(http.DefaultTransport.RoundTrip(r))(t)
		defer a.Body.Close()
		b := must(io.ReadAll(a.Body))(t)
		return a.StatusCode, string(b)
	}
	for _, test := range []struct {
		path, token string
		want        int
		says        []string
	}{
		{"/v1/modules/acme/network/any/versions", ana, 200, []string{`"1.2.0"`}},
		{"/v1/providers/acme/sample/versions", ana, 200, []string{`"1.0.0"`}},
		{"/state/shop/staging", ana, 200, []string{`"large"`}},
		{"/state/platform/default", ana, 403, nil},
		{"/state/platform/default", ben, 200, []string{"one cluster"}},
		{"/v1/modules/acme/network/any/versions", "", 401, nil},
		{"/api/v1/instances", ana, 200, []string{"sandbox/greeting", "sandbox/network", `"requested"`}},
		{"/api/v1/templates", ana, 200, []string{"sandbox/database"}},
		{"/ui/", "", 303, nil},
	} {
		code, body := get(test.path, test.token)
		if code != test.want || slices.ContainsFunc(test.says, func(s string) bool { return !strings.Contains(body, s) }) {
			t.Errorf("%s: %d, want %d with %q: %.600s", test.path, code, test.want, test.says, body)
		}
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, body := get("/api/v1/instances", ana)
		if strings.Contains(body, "bonjour, world") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the greeting is never ready: %s", body)
		}
	}
	d.end()
}

// TestServeDemoEndsRuns ends a sample amid its runs: no process or file is left.
func TestServeDemoEndsRuns(t *testing.T) {
	set := must(findTools())(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // a sandbox reads the tool as a different user
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "tofu")
	script := "#!/bin/sh\ncase $1 in *version) echo 'OpenTofu v1.12.6' ;; *) exec sleep 600 ;; esac\n"
	succeed(t, os.WriteFile(tool, []byte(script), 0o755))
	set.tofu = tool
	d := newDemo(t, set)
	for end := time.Now().Add(5 * time.Minute); len(d.going()) == 0; time.Sleep(100 * time.Millisecond) { // until a run is in progress
		if time.Now().After(end) {
			t.Fatalf("nothing runs: %s", d.notes.String())
		}
	}
	d.end()
}

// TestServeDemoContainer runs the demo as a container would: another user, a root that cannot be written, a
// network of its own. Without one of the tokens that it prints nothing is read or changed.
func TestServeDemoContainer(t *testing.T) {
	if !hasTools("bwrap", "curl") {
		t.Skip("bwrap is the container here, and curl its client")
	}
	set := must(findTools())(t)
	const script = `"$1" serve --demo --json --listen :8080 >/tmp/out 2>/tmp/notes &
for n in $(seq 300); do [ ! -s /tmp/out ] || break; sleep 0.1; done
ask() { curl -sS -o /dev/null -w '%{http_code} ' "$@"; }
for path in v1/modules/acme/network/any/versions v2/ state/shop/default api/v1/search?q=network; do ask http://localhost:8080/$path; done
ask -X POST http://localhost:8080/v2/modules/acme/network/any/blobs/uploads/
ask -X LOCK -d '{"ID":"x"}' http://localhost:8080/state/shop/default
ask -H "Authorization: Bearer $(sed -n 's/.*"token": "\(.*\)".*/\1/p' /tmp/out | tail -n 1)" http://localhost:8080/api/v1/search?q=network
grep -o 'other machines can reach the demo' /tmp/notes
kill $!
wait`
	cmd := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
		"--ro-bind", set.okara, "/tmp/okara", "--uid", "65532", "--gid", "65532", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
		"sh", "-c", script, "sh", "/tmp/okara")
	out, err := cmd.CombinedOutput()
	if got := string(out); err != nil || got != "401 401 401 401 401 401 200 other machines can reach the demo\n" {
		t.Errorf("%v: %s", err, got)
	}
}

// demo is a sample server with a separate folder for temporary files.
type demo struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string
	notes  lockedBuffer
	output struct {
		URL    string
		People []struct{ Name, Role, Token string }
	}
}

func newDemo(t *testing.T, set tools) *demo {
	t.Helper()
	d := &demo{t: t, tmp: t.TempDir(), cmd: exec.Command(set.okara, "serve", "--demo", "--json", "--listen", "127.0.0.1:0")}
	d.cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+d.tmp, "OKARA_TOFU="+set.tofu)
	d.cmd.Stderr = &d.notes
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // in case it has not ended by itself
	if err := json.NewDecoder(out).Decode(&d.output); err != nil || len(d.output.People) != 2 {
		t.Fatalf("%+v: %v: %s", d.output, err, d.notes.String())
	}
	return d
}

// end interrupts the server and checks that nothing is left behind.
func (d *demo) end() {
	d.t.Helper()
	succeed(d.t, d.cmd.Process.Signal(os.Interrupt))
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("it ends with %v: %s", err, d.notes.String())
	}
	if left, err := filepath.Glob(filepath.Join(d.tmp, "*")); err != nil || len(left) > 0 {
		d.t.Errorf("left: %v, %v", left, err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		going := d.going()
		if len(going) == 0 {
			break
		}
		if time.Now().After(end) { // far longer than a killed process takes, and shorter than a run that goes on
			d.t.Errorf("they go on: %q", going)
			break
		}
	}
	for _, person := range d.output.People {
		if strings.Contains(d.notes.String(), person.Token) {
			d.t.Error("a token is in the log")
		}
	}
}

// going lists the processes that are in the folder of the sample, or name it.
func (d *demo) going() (all []string) {
	d.t.Helper()
	processes := must(filepath.Glob("/proc/[0-9]*"))(d.t)
	for _, process := range processes { // processes that have ended meanwhile do not count
		at, _ := os.Readlink(filepath.Join(process, "cwd"))
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if strings.HasPrefix(at, d.tmp) || strings.Contains(string(command), d.tmp) {
			all = append(all, process+" "+at+" "+string(command))
		}
	}
	return all
}
