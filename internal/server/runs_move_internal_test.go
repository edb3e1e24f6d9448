// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// TestMoveOnce: what a version up to commit 6129cd06 stored is moved at the first start.
// What is pushed in that form later is not, by a replica that starts without its folder or
// by one that no longer finds the mark in the registry.
func TestMoveOnce(t *testing.T) {
	folder := t.TempDir()
	f := tfeFront(t, func(o *Options) { o.TFE.Folder = folder })
	store, err := f.o.Stores(t.Context(), "quiet")
	if err != nil {
		t.Fatal(err)
	}
	old := func(workspace string) {
		t.Helper()
		if _, err := store.ChangeRecord(t.Context(), workspace, func(r *statebackend.Record) error { r.Mode = modeRemote; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(name string, want int) {
		t.Helper()
		m := &mover{f, tfe.Options{Open: f.o.Stores, Now: time.Now}, make(chan struct{})}
		if err := m.move(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		book, err := variables.Open(store.Repo(), nil, time.Now, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := book.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if all, err := l.Settings(t.Context(), ""); err != nil || len(all) != want {
			t.Errorf("%s: settings of %v, %v, want %d workspaces", name, all, err, want)
		}
	}
	old("prod")
	moved("first start", 1)
	old("forged")
	moved("next start", 1)
	if err := os.Remove(filepath.Join(folder, movedFile)); err != nil {
		t.Fatal(err)
	}
	moved("start of another replica", 1)
	queue, err := f.o.Client.Repo(f.o.Layout.QueueRepo())
	if err != nil {
		t.Fatal(err)
	}
	mark, err := queue.Resolve(t.Context(), movedTag)
	if err != nil {
		t.Fatal(err)
	}
	if err := queue.Delete(t.Context(), oci.Descriptor{Digest: mark.Digest}); err != nil {
		t.Fatal(err)
	}
	moved("start without the mark", 1)
}
