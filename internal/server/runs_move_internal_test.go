// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// TestRunsProtection: the start of a server that executes runs says who decides about them, and
// on another registry without state keys what that takes.
func TestRunsProtection(t *testing.T) {
	for want, change := range map[string]func(*Options, *tfe.Options){
		"level=INFO.*encrypted with the state keys":                                        func(o *Options, m *tfe.Options) { o.Embedded = nil; m.Sealer = &envelope.Envelope{} },
		"level=INFO.*only administrators may push":                                         func(o *Options, _ *tfe.Options) { o.Embedded = http.NotFoundHandler() },
		"level=WARN.*--runs.*controls what runs execute; set state keys, or let only this": func(o *Options, _ *tfe.Options) { o.Embedded = nil },
	} {
		var log bytes.Buffer
		var m *mover
		f := tfeFront(t, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			m = &mover{o: tfe.Options{Open: o.Stores, Now: time.Now, Runs: struct{ tfe.Runs }{}}, done: make(chan struct{})}
			change(o, &m.o)
		})
		m.f = f
		m.run(t.Context())
		if !regexp.MustCompile(want).MatchString(log.String()) {
			t.Errorf("want %s in\n%s", want, &log)
		}
	}
}

// TestMoveOnce: what a version up to commit 6129cd06 stored is moved at the first start.
// What is pushed in that form later is not, by a replica that starts without its folder or
// by one that no longer finds the mark in the registry.
func TestMoveOnce(t *testing.T) {
	folder := t.TempDir()
	f := tfeFront(t, func(o *Options) { o.TFE.Folder = folder })
	store := must.Get(f.o.Stores(t.Context(), "quiet"))(t)
	old := func(workspace string) {
		t.Helper()
		must.Get(store.Workspaces().Change(t.Context(), workspace, func(r *statebackend.Record) error { r.Mode = modeRemote; return nil }))(t)
	}
	moved := func(name string, want int) {
		t.Helper()
		m := &mover{f, tfe.Options{Open: f.o.Stores, Now: time.Now}, make(chan struct{})}
		if err := m.move(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		book := must.Get(variables.Open(store.Repo(), nil, time.Now, nil))(t)
		l := must.Get(book.List(t.Context()))(t)
		if all, err := l.Settings(t.Context(), ""); err != nil || len(all) != want {
			t.Errorf("%s: settings of %v, %v, want %d workspaces", name, all, err, want)
		}
	}
	old("prod")
	moved("first start", 1)
	old("forged")
	moved("next start", 1)
	must.Succeed(t, os.Remove(filepath.Join(folder, movedFile)))
	moved("start of another replica", 1)
	queue := must.Get(f.o.Client.Repo(f.o.Layout.QueueRepo()))(t)
	mark := must.Get(queue.Resolve(t.Context(), movedTag))(t)
	must.Succeed(t, queue.Delete(t.Context(), oci.Descriptor{Digest: mark.Digest}))
	moved("start without the mark", 1)
}
