// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// mover calls [tfe.Move] once in the life of a registry, at the first start of a server
// that executes runs. What is pushed in the old form afterwards is never read: the move is
// remembered in the queue, which writers of states cannot push to, and in the storage
// folder, which writers of the registry cannot reach.
//
// What is there at that start may be forged, and nothing tells when it was pushed. So an
// administrator says what is done with it ([TFE.Earlier]); until then the runs of these
// organizations are refused. A server without runs moves nothing, for its first client would
// wait for the requests.
type mover struct {
	f         *Front
	o         tfe.Options
	looked    chan struct{} // closed once nothing is left to be moved but what is undecided
	undecided atomic.Pointer[[]string]
}

func newMover(f *Front, o tfe.Options) *mover { return &mover{f: f, o: o, looked: make(chan struct{})} }

const (
	movedTag    = "runs-moved"
	movedType   = "application/vnd.okara.runs-moved.v1"
	moveRetry   = 5 * time.Second
	moveAsk     = time.Minute // to see that another server was told
	movedFile   = "runs-moved"
	movedReason = "Variables and settings of runs were moved away from the states. Without this file, and without the tag " + movedTag + " in the queue, they would be moved again.\n"
)

// wait waits until everything of an organization is moved, and refuses it if that is undecided.
func (m *mover) wait(ctx context.Context, organization string) error {
	select {
	case <-m.looked:
	case <-ctx.Done():
		return fmt.Errorf("variables and settings of an older version are being moved: %w", oci.ErrUnavailable)
	}
	if slices.Contains(*m.undecided.Load(), organization) {
		return &service.Error{Status: http.StatusConflict, Text: fmt.Sprintf("an earlier version kept settings and variables of runs of %q where anyone with write access to the states could change them\n"+
			"hint: an administrator must set earlier_settings = %q or %q in the tfe block; the log of the server says what was found", organization, earlierMove, earlierIgnore)}
	}
	return nil
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
	log := m.f.o.Logger
	for ctx.Err() == nil {
		undecided, err := m.move(ctx, log)
		if err != nil {
			m.f.o.Logger.Warn("variables and settings of runs are not moved yet; runs are waiting", "error", err)
			_ = text.Wait(ctx, moveRetry) // ctx has ended
			continue
		}
		if m.undecided.Swap(&undecided) == nil {
			close(m.looked)
		}
		if len(undecided) == 0 {
			return
		}
		if log == m.f.o.Logger {
			log.Error("runs are refused until the tfe block has earlier_settings = \"move\", which takes over what an earlier version kept among the states, or \"ignore\"", "organizations", undecided)
			log = slog.New(slog.DiscardHandler)
		}
		_ = text.Wait(ctx, moveAsk) // ctx has ended
	}
}

// move returns the organizations where something is to be moved that nobody decided about.
func (m *mover) move(ctx context.Context, log *slog.Logger) (undecided []string, err error) {
	file := filepath.Join(m.f.o.TFE.Folder, movedFile)
	if _, err := os.Stat(file); m.f.o.TFE.Folder != "" && err == nil {
		return nil, nil
	}
	queue, err := m.f.o.Client.Repo(m.f.o.Layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	_, err = queue.Resolve(ctx, movedTag)
	if errors.Is(err, oci.ErrNotFound) {
		if was := m.undecided.Load(); was != nil { // looked at once: what is pushed later does not count
			return *was, nil
		}
		if undecided, err = m.moveAll(ctx, log); err == nil && len(undecided) == 0 {
			err = markMoved(ctx, queue)
		}
	}
	if err != nil || len(undecided) > 0 || m.f.o.TFE.Folder == "" {
		return undecided, err
	}
	return nil, files.Replace(file, []byte(movedReason), 0o600)
}

func (m *mover) moveAll(ctx context.Context, log *slog.Logger) ([]string, error) {
	if m.f.o.TFE.Earlier == earlierIgnore {
		return nil, nil
	}
	names := m.f.o.TFE.Organizations
	if m.f.o.States != nil {
		m.f.o.States.Renew()
		var err error
		if names, err = m.f.o.States.Names(ctx); err != nil {
			return nil, err
		}
	}
	return tfe.Move(ctx, m.o, names, m.f.o.TFE.Earlier != earlierMove, log)
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
