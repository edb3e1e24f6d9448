// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// faultsVar makes TestTofuFaultMatrix try every fault (make interop).
const faultsVar = "OKARA_TEST_FAULTS"

// faulty is a registry that breaks one request of an apply.
type faulty struct {
	registry http.Handler
	*person
	tofu, host string

	mu    sync.Mutex // guards the fields below
	fault *ocitest.Fault
	names []string // of the requests since the fault was set
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	f := &faulty{registry: ocitest.Handler(t, ocitest.Quirks{}), person: newPerson(t), tofu: tofutest.Tofu(t)}
	f.arm(0, ocitest.Twice)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.host = strings.TrimPrefix(s.URL, "http://")
	f.file("module/main.tf", fmt.Sprintf(`terraform {
  backend "oci" {
    repository = %q
  }
}

variable "text" {}

resource "terraform_data" "one" {
  input = var.text
}

output "text" {
  value = terraform_data.one.output
}
`, f.host+"/infra/state"))
	return f
}

// arm breaks or delays the nth request; the result delivers it.
func (f *faulty) arm(nth int, do ocitest.Act) (deliver func()) {
	deliver = func() {}
	fault := &ocitest.Fault{Base: ocitest.Direct{Handler: f.registry}, Nth: nth, Do: do}
	if do == nil {
		fault.Do, deliver = ocitest.Late()
		fault.Times = -1
	}
	if nth == 0 {
		fault.Match = func(*http.Request) bool { return false }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.names = fault, nil
	return deliver
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	fault := f.fault
	f.names = append(f.names, r.Method+" "+changing.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/v2/infra/state/"), "…"))
	f.mu.Unlock()
	ocitest.Through(fault).ServeHTTP(w, r)
}

// changing matches the parts in which the same requests of two applies differ.
var changing = regexp.MustCompile(`[0-9a-f]{32,}|-[0-9]{12}-[0-9a-f]{16}|[0-9a-f-]{36}|-v[0-9]+`)

// run runs the tool through the wrapper, and returns its output and its error.
func (f *faulty) run(args ...string) (string, error) {
	cmd := exec.Command("okara", append([]string{"tofu"}, args...)...)
	cmd.Dir = filepath.Join(f.home, "module")
	cmd.Env = append(os.Environ(), "HOME="+f.home, "OKARA_TOFU="+f.tofu, "TF_INPUT=0", "TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTofuFaultMatrix breaks the requests that `okara tofu apply` sends to the registry, one
// in each apply: the request is lost, its answer is lost, it arrives twice, it arrives late,
// or it is refused. The apply always succeeds.
//
// Shows: servers 3
// Shows: servers 4 | the same under `okara tofu apply` with stock OpenTofu; all failures in `make
// interop`
func TestTofuFaultMatrix(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name string
		do   ocitest.Act
	}{
		{"before", ocitest.FailBefore}, {"after", ocitest.FailAfter}, {"twice", ocitest.Twice}, {"late", nil}, {"refused", ocitest.Status(429, 1)},
	}
	f := newFaulty(t)
	for _, args := range [][]string{{"init"}, {"apply", "-auto-approve", "-var", "text=first"}} {
		if out, err := f.run(args...); err != nil {
			t.Fatalf("tofu %v: %v\n%s", args, err, out)
		}
	}
	var table strings.Builder
	for nth, hit := 1, true; hit; nth++ {
		for k, kind := range kinds {
			if os.Getenv(faultsVar) == "" && k != nth%len(kinds) {
				continue
			}
			text := fmt.Sprintf("%s-%d", kind.name, nth)
			var request, outcome string
			if request, outcome, hit = f.apply(t, text, nth, kind.do); !hit {
				break
			}
			fmt.Fprintf(&table, "\n%2d %-34s %-8s %s", nth, request, kind.name, outcome)
		}
		if !hit && nth <= 10 {
			t.Errorf("the apply had only %d requests", nth-1)
		}
	}
	t.Logf("request, fault and outcome:%s", table.String())
}

// apply's nth request fails, hit if there was one; it succeeds all the same.
func (f *faulty) apply(t *testing.T, text string, nth int, do ocitest.Act) (request, outcome string, hit bool) {
	t.Helper()
	deliver := f.arm(nth, do)
	out, err := f.run("apply", "-auto-approve", "-var", "text="+text)
	deliver()
	f.mu.Lock()
	if hit = len(f.names) >= nth; hit {
		request = f.names[nth-1]
	}
	f.mu.Unlock()
	outcome = "exit 0"
	if err != nil {
		outcome = err.Error()
		t.Errorf("%s, %s: %v\n%s", text, request, err, out)
	}
	f.arm(0, ocitest.Twice)
	if locks := f.mustOkara("state", "locks", f.host+"/infra/state"); strings.TrimSpace(locks) != "" {
		t.Errorf("%s, %s: a lock is left:\n%s", text, request, locks)
	}
	if state := f.mustOkara("state", "pull", f.host+"/infra/state"); !strings.Contains(state, fmt.Sprintf("%q", text)) {
		t.Errorf("%s, %s: its state is not there, but\n%s", text, request, state)
	}
	return request, outcome, hit
}
