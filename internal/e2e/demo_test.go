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

// TestServeDemo tries okara serve --demo as each of its two people, with the real tool:
// what is published, who may what, what waits for approval, an instance that gets ready,
// and that nothing of it stays.
func TestServeDemo(t *testing.T) {
	set, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(set.okara, "serve", "--demo", "--json", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+tmp, "OKARA_TOFU="+set.tofu)
	var notes lockedBuffer
	cmd.Stderr = &notes
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // where it has not ended by itself
	var said struct {
		URL    string
		People []struct{ Name, Role, Token string }
	}
	if err := json.NewDecoder(out).Decode(&said); err != nil || len(said.People) != 2 {
		t.Fatalf("%+v: %v: %s", said, err, notes.String())
	}
	ana, ben := said.People[0].Token, said.People[1].Token
	get := func(path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, said.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
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
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, notes.String())
	}
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, person := range said.People {
		if strings.Contains(notes.String(), person.Token) {
			t.Error("a token is in the log")
		}
	}
}
