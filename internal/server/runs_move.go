// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// mover calls [tfe.Move] once in the life of a registry, at the first start of a server
// that executes runs. What is pushed in the old form afterwards is never read: the move is
// remembered in the queue, which writers of states cannot push to, and in the storage
// folder, which writers of the registry cannot reach.
type mover struct {
	f    *Front
	o    tfe.Options
	done chan struct{} // closed once nothing is left to be moved
}

const (
	movedTag    = "runs-moved"
	movedType   = "application/vnd.okara.runs-moved.v1"
	moveRetry   = 5 * time.Second
	movedFile   = "runs-moved"
	movedReason = "Variables and settings of runs were moved away from the states. Without this file, and without the tag " + movedTag + " in the queue, they would be moved again.\n"
)

// wait waits until everything is moved.
func (m *mover) wait(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("variables and settings of an older version are being moved: %w", oci.ErrUnavailable)
	}
}

// run says where that is which decides about runs, and moves it there.
func (m *mover) run(ctx context.Context) {
	level, how := slog.LevelInfo, "encrypted with the state keys: unencrypted ones are refused"
	switch {
	case m.o.Sealer != nil:
	case m.f.o.Embedded != nil:
		how = "unencrypted, only administrators may push there"
	default:
		level, how = slog.LevelWarn, "unencrypted: whoever may push there controls what runs execute; set state keys, or let only this server push there"
	}
	if m.o.Runs != nil {
		m.f.o.Logger.Log(ctx, level, "variables and settings of runs are in the repositories of the states with the suffix "+addr.RunsSuffix, "protection", how)
	}
	for ctx.Err() == nil {
		err := m.move(ctx)
		if err == nil {
			close(m.done)
			return
		}
		m.f.o.Logger.Warn("variables and settings of runs are not moved yet; runs are waiting", "error", err)
		_ = text.Wait(ctx, moveRetry) // ctx has ended
	}
}

func (m *mover) move(ctx context.Context) error {
	file := filepath.Join(m.f.o.TFE.Folder, movedFile)
	if _, err := os.Stat(file); m.f.o.TFE.Folder != "" && err == nil {
		return nil
	}
	queue, err := m.f.o.Client.Repo(m.f.o.Layout.QueueRepo())
	if err != nil {
		return err
	}
	_, err = queue.Resolve(ctx, movedTag)
	if errors.Is(err, oci.ErrNotFound) {
		if err = m.moveAll(ctx); err == nil {
			err = markMoved(ctx, queue)
		}
	}
	if err != nil || m.f.o.TFE.Folder == "" {
		return err
	}
	return files.Replace(file, []byte(movedReason), 0o600)
}

func (m *mover) moveAll(ctx context.Context) error {
	names := m.f.o.TFE.Organizations
	if m.f.o.States != nil {
		m.f.o.States.Renew()
		var err error
		if names, err = m.f.o.States.Names(ctx); err != nil {
			return err
		}
	}
	return tfe.Move(ctx, m.o, names, m.f.o.Logger)
}

// markMoved remembers that everything is moved. A server that stops waits for it.
func markMoved(ctx context.Context, queue *oci.Repo) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveRetry)
	defer cancel()
	made, err := artifact.NewBare(movedType, map[string]string{artifact.AnnKind: "runs-moved"})
	_, blobErr := queue.EnsureBlob(ctx, oci.EmptyBlob())
	if err := cmp.Or(err, blobErr); err != nil {
		return err
	}
	return queue.PutTag(ctx, movedTag, made)
}
