// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// twoMinds is a registry whose next list lacks a claim that was read.
type twoMinds struct {
	lists int
	read  bool
}

func (m *twoMinds) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.Contains(r.URL.Path, "/manifests/locked-"):
		m.read = true
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		m.lists++
		if m.read {
			m.read = false
			return ocitest.Respond("application/json", `{"name":"x","tags":[]}`)(r, nil)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestTakeLockPauses: a lock held when asked for and gone when released: it waits, and gives up.
func TestTakeLockPauses(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	lost := tr.order.Spec.Ref
	must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(lost), Operation: operation}))(t)
	tr.order.Spec.Took = run.LockID(lost)
	c := tr.next()
	via := &twoMinds{}
	tr.through(c, via)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // in case it never gives up
	defer cancel()
	err := takeLock(ctx, c)
	if stopped, ok := errors.AsType[*stopError](err); !ok || stopped.outcome != lifecycle.Held {
		t.Errorf("%v after %d lists, want that it ends as held", err, via.lists)
	}
	if limit := int(2 * 2 * c.pace.held / c.pace.pause); via.lists > limit {
		t.Errorf("%d lists, want at most %d", via.lists, limit)
	}
}

// TestTakeLockAbandoned: a listed, unreadable claim goes at once if the attempt's own, else in
// time.
func TestTakeLockAbandoned(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	lost := run.LockID(tr.order.Spec.Ref)
	sum := sha256.Sum256([]byte(lost))
	tr.pace.held, tr.pace.pause = time.Minute, 10*time.Second
	for _, tc := range []struct {
		name, x string
		soon    bool
	}{
		{"own", hex.EncodeToString(sum[:4]) + "00000001", true},
		{"another's", "0123456789abcdef", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tr.next()
			c.Order.Spec.Took = lost
			g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
			tr.through(c, ocitest.Direct{Handler: g})
			repository := c.repo.Repo.Name()
			tag := format.StateTag{Kind: format.LockClaim, Fragment: format.StateFragment("default"), N: 1, X: tc.x}
			g.Add(repository, tag.String())
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				must.Succeed(t, takeLock(t.Context(), c))
				if took := time.Since(begin); tc.soon != (took < time.Minute) {
					t.Errorf("it took %s", took)
				}
				if err := c.lock.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestErroredOfPlans: only runs that change something leave a state.
func TestErroredOfPlans(t *testing.T) {
	for kind, keeps := range map[lifecycle.RunKind]bool{lifecycle.RunApply: true, lifecycle.RunDestroy: true, lifecycle.RunPlan: false, lifecycle.RunDrift: false} {
		tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"init": {{Write: [2]string{sandbox.ErroredFile, "{}"}}}}.Module())
		tr.order.Spec.Ref.Kind = kind
		tr.run()
		if got := sandbox.FindErrored(tr.order.Scratch) != ""; got != keeps {
			t.Errorf("%s: kept: %v", kind, got)
		}
	}
}

// TestCertificatesOfHost: a child trusts Docker's folder for its registry.
func TestCertificatesOfHost(t *testing.T) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: ocitest.New(t, ocitest.Quirks{})})
	srv := httptest.NewTLSServer(proxy)
	t.Cleanup(srv.Close)
	host, dir := strings.TrimPrefix(srv.URL, "https://"), t.TempDir()
	runtest.MustWrite(t, filepath.Join(dir, host, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	for name, dirs := range map[string][]string{"with": {dir}, "without": nil} {
		o := &sandbox.Order{Scratch: t.TempDir(), Registry: sandbox.Registry{Prefix: host, CertDirs: dirs}}
		repo, err := openRepo(o, host+"/acme/x", "okara/test")
		if err != nil {
			t.Fatal(err)
		}
		_, err = repo.EnsureBlob(t.Context(), oci.EmptyBlob())
		if (err == nil) != (dirs != nil) {
			t.Errorf("%s the folder: %v", name, err)
		}
	}
}

// TestLocalResult: the copy beside a run has no sensitive variables.
func TestLocalResult(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	tr.order.Spec.Variables = map[string]json.RawMessage{"password": json.RawMessage(`"planted"`), "size": json.RawMessage(`"small"`)}
	tr.order.Spec.Sensitive = []string{"password"}
	if r, _ := tr.run(); string(r.Variables["password"]) != `"planted"` {
		t.Errorf("sealed: %s", r.Variables)
	}
	b, err := os.ReadFile(filepath.Join(tr.order.Scratch, sandbox.ResultFile))
	if err != nil || strings.Contains(string(b), "planted") || !strings.Contains(string(b), "small") {
		t.Errorf("%s, %v", b, err)
	}
}

// TestLedgerWhileWritten: a listed version that cannot be read yet ends nothing.
func TestLedgerWhileWritten(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	var asked atomic.Int32
	tr.named.Store(new(func() (bool, string, error) {
		if asked.Add(1)%2 == 1 {
			return false, "", fmt.Errorf("it is listed, and not there: %w", oci.ErrCorrupt)
		}
		return true, "", nil
	}))
	if r, log := tr.run(); r.Outcome != lifecycle.Done {
		t.Errorf("report %+v\n%s", r, log)
	}
}

// trial is an instance with the folder of its attempts.
type trial struct {
	*runtest.Instance
	dir   string        // of the attempts
	order sandbox.Order // with the specification of the last one
	named atomic.Pointer[func() (bool, string, error)]
	pace  pace
}

func newTrial(t *testing.T, host string, files map[string]string) *trial {
	t.Helper()
	self := must.Get(os.Executable())(t)
	tr := &trial{Instance: runtest.NewInstance(t, host, files), dir: filepath.Join(t.TempDir(), "runs", "abc")}
	tr.order = sandbox.Order{
		Spec: *tr.Spec, Program: self, Okara: self, Isolation: sandbox.Isolation{Mode: sandbox.ModeNone}, Registry: sandbox.Registry{Prefix: host + "/okara"}, StateKeys: runtest.StateKeys,
	}
	tr.Spec = &tr.order.Spec
	tr.pace = pace{held: 100 * time.Millisecond, poll: 10 * time.Millisecond, persist: 20 * time.Second, pause: 50 * time.Millisecond, grace: 20 * time.Second, push: 20 * time.Millisecond}
	tr.names(true, "")
	return tr
}

// module makes the files the source of the next attempts.
func (tr *trial) module(files map[string]string) {
	tr.T.Helper()
	if size := tr.Module(files); tr.order.Registry.BuiltIn {
		tr.order.Spec.Source.Size = size
	}
}

func (tr *trial) names(named bool, cancel string) {
	f := func() (bool, string, error) { return named, cancel, nil }
	tr.named.Store(&f)
}

func (tr *trial) next() *child {
	tr.T.Helper()
	tr.Next()
	ref := tr.Spec.Ref
	tr.order.Scratch = filepath.Join(tr.dir, fmt.Sprintf("%d-%d", ref.N, ref.Attempt))
	c := newChild(Options{
		Order: tr.order, Getenv: func(name string) string { return map[string]string{"HTTP_PROXY": "", "NO_PROXY": "127.0.0.1"}[name] },
		Named: func(context.Context, lifecycle.Ref) (Standing, error) {
			named, cancel, err := (*tr.named.Load())()
			return Standing{Named: named, Cancel: cancel}, err
		},
		UserAgent: "okara/test",
	}, tr.pace)
	c.start = func(t sandbox.Command) (startedTool, error) {
		t.Alone = false // other tests have children too
		return c.Order.Start(c.dir, t)
	}
	return c
}

// run runs another attempt to its end.
func (tr *trial) run() (run.Report, string) {
	tr.T.Helper()
	c := tr.next()
	must.Succeed(tr.T, c.run(tr.T.Context()))
	return tr.Result()
}
