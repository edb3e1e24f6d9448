// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// TestRunsProtection: a start with runs says who decides about them, and what that takes.
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
			m = newMover(nil, tfe.Options{Open: o.Stores, Now: time.Now, Runs: struct{ tfe.Runs }{}})
			change(o, &m.o)
		})
		m.f = f
		m.run(t.Context())
		if !regexp.MustCompile(want).MatchString(log.String()) {
			t.Errorf("want %s in\n%s", want, &log)
		}
	}
}

// TestMoveOnce: what versions up to commit 6129cd06 stored, or somebody forged, moves at the first
// start with a consent, before which runs are refused. What is pushed so later never does.
func TestMoveOnce(t *testing.T) {
	for consent, want := range map[string]int{earlierMove: 1, earlierIgnore: 0} {
		t.Run(consent, func(t *testing.T) { checkMoveOnce(t, consent, want) })
	}
}

func checkMoveOnce(t *testing.T, consent string, n int) {
	folder := t.TempDir()
	f := tfeFront(t, func(o *Options) { o.TFE.Folder = folder })
	store := must.Get(f.o.Stores(t.Context(), "quiet"))(t)
	old := func(workspace string) {
		t.Helper()
		must.Get(store.Workspaces().Change(t.Context(), workspace, func(r *statebackend.Record) error { r.Mode = modeRemote; return nil }))(t)
	}
	moved := func(name string, want int) {
		t.Helper()
		newMover(f, tfe.Options{Open: f.o.Stores, Now: time.Now}).run(t.Context())
		book := must.Get(variables.Open(store.Repo(), nil, time.Now, nil))(t)
		l := must.Get(book.List(t.Context()))(t)
		if all, err := l.Settings(t.Context(), ""); err != nil || len(all) != want {
			t.Errorf("%s: settings of %v, %v, want %d workspaces", name, all, err, want)
		}
	}
	old("prod")
	waiting := newMover(f, tfe.Options{Open: f.o.Stores, Now: time.Now})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { waiting.run(ctx); close(ended) }()
	if status, _, _ := service.Own(waiting.wait(t.Context(), "quiet")); status != http.StatusConflict {
		t.Errorf("before the consent the status is %d", status)
	}
	must.Succeed(t, waiting.wait(t.Context(), "other"))
	stop()
	<-ended
	f.o.TFE.Earlier = consent
	moved("first start", n)
	f.o.TFE.Earlier = earlierMove // also where it stays in the file
	old("forged")
	moved("next start", n)
	must.Succeed(t, os.Remove(filepath.Join(folder, movedFile)))
	moved("start of another replica", n)
	queue := must.Get(f.o.Client.Repo(f.o.Layout.QueueRepo()))(t)
	mark := must.Get(queue.Resolve(t.Context(), movedTag))(t)
	must.Succeed(t, queue.Delete(t.Context(), oci.Descriptor{Digest: mark.Digest}))
	moved("start without the mark", n)
}
