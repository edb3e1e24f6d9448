// SPDX-License-Identifier: Apache-2.0

package localexec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

const countedKeys = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="

// TestRequestsOfACreate counts a create's requests to the built-in registry, of command, leader and
// child. Commits and heartbeats are package ledger's.
func TestRequestsOfACreate(t *testing.T) {
	w := newCounted(t)
	first, _ := w.create(t, "first")
	warm, commits := w.create(t, "second")
	t.Logf("the first create:\n%s", first)
	t.Logf("one more, beside %d requests of commits and beats:\n%s", commits, warm)
	for name, r := range map[string]requests{"the first": first, "one more": warm} {
		if n := r.sum() - r.looks(); n > 26 {
			t.Errorf("%s: %d requests, want at most 26", name, n)
		}
	}
}

// requests are counted by sender and kind.
type requests map[string]int

func (r requests) sum() int {
	sum := 0
	for _, n := range r {
		sum += n
	}
	return sum
}

// looks returns how many requests of the child asked for the ledger.
func (r requests) looks() int {
	sum := 0
	for what, n := range r {
		if strings.Contains(what, " ledger ") {
			sum += n
		}
	}
	return sum
}

func (r requests) String() string {
	var b bytes.Buffer
	for _, what := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%3d  %s\n", r[what], what)
	}
	fmt.Fprintf(&b, "%3d  in all\n", r.sum())
	return b.String()
}

// counted is a server of instances that counts requests.
type counted struct {
	*ledger.Ledger
	registry http.Handler
	template *template.Template
	digest   string
	source   template.Source

	mu      sync.Mutex // guards the fields below
	seen    requests
	commits int
}

func (w *counted) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	who := r.UserAgent()
	path := strings.TrimPrefix(r.URL.Path, "/v2/okara/")
	i := max(strings.LastIndex(path, "/manifests/"), strings.LastIndex(path, "/blobs/"), strings.LastIndex(path, "/tags/"))
	repository, rest, what := path, "", r.Method
	if i > 0 {
		repository, rest = path[:i], path[i+1:]
	}
	switch query := r.URL.Query(); {
	case query.Has("mount"):
		what = "mount"
	case strings.HasPrefix(rest, "tags/"):
		what = "LIST"
	case strings.HasPrefix(rest, "blobs/"):
		what += " blob"
	default:
		what += " " + strings.TrimRight(strings.TrimPrefix(rest, "manifests/"), "0123456789abcdef-")
	}
	repository, _, _ = strings.Cut(repository, "/sandbox/")
	if who == "leader" && repository == "ledger" {
		w.commits++
	} else {
		w.seen[fmt.Sprintf("%-6s  %-9s  %s", who, repository, what)]++
	}
	w.mu.Unlock()
	w.registry.ServeHTTP(rw, r)
}

// shelf has one template.
type shelf struct{ entry template.Entry }

func (s shelf) Known() ([]template.Entry, bool) { return []template.Entry{s.entry}, true }
func (s shelf) Current(name string) (*template.Entry, bool) {
	return &s.entry, name == s.entry.Template.Name
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	w := &counted{seen: requests{}}
	registry := must.Get(embedded.New(t.TempDir(), embedded.Options{}))(t)
	w.registry = registry
	t.Cleanup(func() { _ = registry.Close() })
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	client := must.Get(oci.New(host, oci.Options{PlainHTTP: true, SinglePost: true, UserAgent: "leader"}))(t)
	sealer := must.Get(envelope.New(envelope.Options{Keys: []string{countedKeys}}))(t)
	layout := addr.Layout{Prefix: "okara"}
	w.publish(t, must.Get(client.Repo(layout.Module(addr.Module{Namespace: "net", Name: "vpc", System: "aws"})))(t))
	w.template = &template.Template{
		Name: "sandbox/vpc", Enabled: true, Visible: true, Module: template.ModuleRef{Address: "net/vpc/aws"}, Executor: "local",
		Description: noise(48 << 10), Inputs: json.RawMessage(`{"stub":{"Real":true}}`), Owner: template.OwnerUser, Approval: "none", Timeout: 30 * time.Minute, Update: "manual",
	}
	w.digest = must.Get(w.template.Digest())(t)

	machine := &lifecycle.Machine{}
	var reconciler *driver.Driver
	w.Ledger = must.Get(ledger.New(ledger.Options{
		Repo: func(n int) (*oci.Repo, error) { return client.Repo(layout.Ledger(n)) }, Machine: machine, Sealer: sealer, BuiltIn: true, Folder: t.TempDir(),
		Effects: func(ctx context.Context, effects []lifecycle.Effect) { reconciler.Effects(ctx, effects) },
	}))(t)
	reconciler = driver.New(driver.Options{
		Store: w, Machine: machine, Changed: w.Changed, Executor: newExecutor(t, client, sealer),
		Templates: shelf{template.Entry{Template: w.template, Digest: w.digest, Source: w.source}}, Client: client, Layout: layout, Sealer: sealer,
		Ledger: func() string { return host + "/" + layout.Ledger(1) }, Observe: 50 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() { stop(); serving.Wait() })
	for _, work := range []func(context.Context) error{w.Run, reconciler.Run} {
		serving.Go(func() {
			if err := work(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.await(t, "a leader", func(v lifecycle.View) bool { return v.Leading })
	return w
}

// publish puts a module into its repository, with a state and a lock file.
func (w *counted) publish(t *testing.T, repo *oci.Repo) {
	t.Helper()
	state := fmt.Sprintf(`{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[{"mode":"managed","instances":[{"attributes":%q}]}]}`, noise(64<<10))
	steps := must.Get(json.Marshal(map[string]any{
		"init":  []map[string]any{{"Write": []string{".terraform.lock.hcl", "# locked\n"}}},
		"apply": []map[string]any{{"State": state}},
	}))(t)
	zip := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(t, map[string]string{"main.tf": "# nothing\n", "stub.json": string(steps)}))
	for _, b := range []oci.Blob{oci.EmptyBlob(), zip} {
		must.Succeed(t, repo.PushBlob(t.Context(), b))
	}
	w.source = template.Source{Module: "net/vpc/aws", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("1", 64), Archive: zip.Digest.String(), Size: zip.Size}
}

// noise is incompressible, as real states are not small.
func noise(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// newExecutor returns a local executor whose tool is a stub.
func newExecutor(t *testing.T, client *oci.Client, sealer artifact.Sealer) *localexec.Local {
	t.Helper()
	self := must.Get(os.Executable())(t)
	program := filepath.Join(t.TempDir(), "tofu")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = version ]; then echo 'OpenTofu v1.12.6'; exit; fi\nexec '%s' \"$@\"\n", self)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // it is started
		t.Fatal(err)
	}
	repo := func(s run.Attempt) (*oci.Repo, error) {
		_, name, _ := strings.Cut(s.Repository, "/")
		return client.Repo(name)
	}
	return must.Get(localexec.NewLocal(t.Context(), localexec.LocalOptions{
		Storage: t.TempDir(), Program: program, Isolation: sandbox.ModeNone, Only: true, Getenv: func(string) string { return "" },
		Order: func(context.Context, run.Attempt) (sandbox.Order, error) {
			return sandbox.Order{Registry: sandbox.Registry{Prefix: client.Host() + "/okara", PlainHTTP: true, BuiltIn: true}, StateKeys: countedKeys}, nil
		},
		Instance: func(_ context.Context, s run.Attempt) (records.InstanceRepo, error) {
			r, err := repo(s)
			return records.InstanceRepo{Repo: r, Sealer: sealer}, err
		},
		State: func(_ context.Context, s run.Attempt) (*statebackend.Store, error) {
			r, err := repo(s)
			return statebackend.New(r, statebackend.Options{Sealer: sealer}), err
		},
	}))(t)
}

// await waits until the ledger satisfies a condition.
func (w *counted) await(t *testing.T, what string, done func(lifecycle.View) bool) {
	t.Helper()
	for {
		changed := w.Changed()
		v, err := w.View(t.Context())
		if err == nil && done(v) {
			return
		}
		if err != nil && !errors.Is(err, lifecycle.ErrNoLeader) {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("the test ended while it waited for " + what)
		}
	}
}

// create makes an instance: its requests, and the ledger's meanwhile.
func (w *counted) create(t *testing.T, name string) (requests, int) {
	t.Helper()
	w.take()
	answer, err := w.Do(t.Context(), lifecycle.Command{
		Event: lifecycle.Create{
			Template: w.template, Digest: w.digest, Source: w.source, Name: name,
			Owner: template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "anna"},
		},
		Actor: lifecycle.Actor{Issuer: "https://idp", Subject: "anna"}, Key: name, Caller: "anna", Seed: sha256.Sum256([]byte(name)),
	})
	if err != nil || answer.Status != http.StatusCreated {
		t.Fatalf("create: %+v, %v", answer, err)
	}
	w.await(t, name, func(v lifecycle.View) bool {
		rec := v.Document.Records[answer.Record.ID]
		if rec != nil && rec.Phase == lifecycle.Failed {
			t.Fatalf("it failed: %s", rec.Reason)
		}
		return rec != nil && rec.Phase == lifecycle.Ready
	})
	return w.take()
}

func (w *counted) take() (requests, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, commits := w.seen, w.commits
	w.seen, w.commits = requests{}, 0
	return seen, commits
}
