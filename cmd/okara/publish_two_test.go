// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// meeting is a registry at which two publishers of a version arrive at once: the first to
// announce itself is held until the second does, or briefly if none comes.
type meeting struct {
	http.Handler
	mu     sync.Mutex // guards waits
	waits  chan struct{}
	missed int
}

func (m *meeting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ends := strings.HasSuffix(r.URL.Path, "-x") // a bid, if the registry cannot delete
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/okara-publish-") && !ends {
		m.meet()
	}
	m.Handler.ServeHTTP(w, r)
}

func (m *meeting) meet() {
	m.mu.Lock()
	if m.waits != nil {
		close(m.waits)
		m.waits = nil
		m.mu.Unlock()
		return
	}
	other := make(chan struct{})
	m.waits = other
	m.mu.Unlock()
	select {
	case <-other:
		return
	case <-time.After(20 * time.Second):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits == other {
		m.waits = nil
		m.missed++
	}
}

// TestTwoProcessesPublish: two processes publish one version at once, both at the registry or
// each through a server. With different content exactly one succeeds, and the other exits
// with 4; with the same content both succeed.
//
// Shows: rules 8 | of two concurrent publishers of a version one succeeds, the other exits with 4;
// leftovers are pruned
func TestTwoProcessesPublish(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]ocitest.Quirks{"deletes": {}, "deletes nothing": {NoDelete: true}} {
		t.Run(name, func(t *testing.T) {
			m := &meeting{Handler: ocitest.Handler(t, quirks)}
			s := httptest.NewServer(m)
			t.Cleanup(s.Close)
			registry := strings.TrimPrefix(s.URL, "http://")
			one, two := newServeProcess(t, nil, "--registry", registry), newServeProcess(t, nil, "--registry", registry)
			for i, through := range [][2][]string{
				{{"--registry", registry}, {"--registry", registry}},
				{{"--server", one.url}, {"--server", two.url}},
				{{"--server", one.url}, {"--registry", registry}},
			} {
				for j, equal := range []bool{false, false, true} {
					version := fmt.Sprintf("1.%d.%d", i, j)
					publishTwice(t, registry, version, through, equal)
				}
			}
			if m.missed > 0 {
				t.Errorf("%d publishers met nobody", m.missed)
			}
		})
	}
}

// publishTwice publishes one version by two processes.
func publishTwice(t *testing.T, registry, version string, through [2][]string, equal bool) {
	t.Helper()
	var said [2]string
	var codes [2]int
	var done sync.WaitGroup
	for i := range through {
		text := "locals {}\n"
		if !equal {
			text = fmt.Sprintf("locals { a = %d }\n", i)
		}
		home := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(home, "main.tf"), []byte(text), 0o600))
		cmd := exec.CommandContext(t.Context(), "okara", append([]string{"publish", "module", home, "net/vpc/aws", version}, through[i]...)...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		done.Go(func() {
			out, err := cmd.CombinedOutput()
			said[i] = string(out)
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				codes[i] = e.ExitCode()
			} else if err != nil {
				codes[i] = -1
			}
		})
	}
	done.Wait()
	if equal {
		if codes != [2]int{} {
			t.Errorf("%s through %v with the same content: exit %v\n%s\n%s", version, through, codes, said[0], said[1])
		}
		return
	}
	winner := 0
	if codes[0] != cli.ExitOK {
		winner = 1
	}
	if codes[winner] != cli.ExitOK || codes[1-winner] != cli.ExitConflict || strings.Count(said[1-winner], "sha256:") < 2 {
		t.Errorf("%s through %v: exit %v\n%s\n%s", version, through, codes, said[0], said[1])
		return
	}
	r := must.Get(oci.OpenRepo(registry+"/modules/net/vpc/aws", oci.Options{PlainHTTP: true}))(t)
	if d, err := r.Resolve(t.Context(), version); err != nil || !strings.Contains(said[winner], d.Digest.String()) {
		t.Errorf("%s is %s, %v; told was\n%s", version, d.Digest, err, said[winner])
	}
}
