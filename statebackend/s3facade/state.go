// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

// snapshotLife is how long the bytes that a HEAD read serve the GET that follows it.
const snapshotLife = 10 * time.Second

type snapshot struct {
	data []byte
	read time.Time
}

// snapshots are the states that HEADs of this run read, one per workspace.
type snapshots struct {
	mu   sync.Mutex // guards last
	last map[Ref]snapshot
}

func (s *snapshots) remember(p Ref, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[p] = snapshot{data: data, read: time.Now()}
}

// recall returns the bytes of a recent HEAD, and drops them if final is set.
func (s *snapshots) recall(p Ref, final bool) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.last[p]
	if !ok || time.Since(seen.read) > snapshotLife {
		delete(s.last, p)
		return nil, false
	}
	if final {
		delete(s.last, p)
	}
	return seen.data, true
}

func (s *snapshots) forgetHead(p Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, p)
}

func (f *Facade) serveState(w http.ResponseWriter, r *http.Request, p Ref) error {
	switch r.Method {
	case http.MethodHead, http.MethodGet:
		return f.getObject(w, r, p)
	case http.MethodPut:
		return f.putObject(w, r, p)
	case http.MethodDelete:
		return f.removeWorkspace(w, r, p)
	}
	return errMethod(r)
}

// getObject answers HEAD, which reads, and GET, from a HEAD before: once, or for all later ranges.
func (f *Facade) getObject(w http.ResponseWriter, r *http.Request, p Ref) error {
	rng := r.Header.Get("Range")
	later := rng != "" && !strings.HasPrefix(rng, "bytes=0-")
	if r.Method == http.MethodGet {
		if data, ok := f.read.recall(p, rng == ""); ok {
			serveBytes(w, r, data)
			return nil
		}
		if later {
			return &s3Error{http.StatusPreconditionFailed, "PreconditionFailed", "the state changed while it was read in ranges; read it again"}
		}
	}
	data, err := f.load(r.Context(), p)
	if err != nil {
		return err
	}
	if !p.Remote {
		f.o.Loaded(r.UserAgent(), data)
	}
	if r.Method == http.MethodHead || rng != "" {
		f.read.remember(p, data)
	}
	serveBytes(w, r, data)
	return nil
}

func (f *Facade) load(ctx context.Context, p Ref) ([]byte, error) {
	f.locks.mu.Lock()
	own := f.locks.own[p]
	f.locks.mu.Unlock()
	if own != nil {
		data, _, err := own.Get(ctx)
		return data, err
	}
	s, err := f.store(ctx, p)
	if err != nil {
		return nil, err
	}
	data, _, err := s.Get(ctx, p.Workspace)
	return data, err
}

func (f *Facade) putObject(w http.ResponseWriter, r *http.Request, p Ref) error {
	data, err := readBody(r, f.o.MaxState)
	if err != nil {
		return err
	}
	if err := f.storeState(r.Context(), p, data); err != nil {
		return err
	}
	w.Header().Set("ETag", etag(data))
	return nil
}

// storeState continues if the tool is gone: the last state of a killed tool is worth keeping.
func (f *Facade) storeState(ctx context.Context, p Ref, data []byte) error {
	f.read.forgetHead(p)
	ctx = context.WithoutCancel(ctx)
	return f.locks.withLock(ctx, p, "write without a lock of the tool", func(l *statebackend.Lock) error {
		v, err := Persist(ctx, l, data, f.o.Persist)
		f.noteWritten(p, err)
		if err == nil {
			f.o.Stored(v, data)
		}
		return err
	})
}

func (f *Facade) noteWritten(p Ref, err error) {
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written[p] = true
}

func (f *Facade) removeWorkspace(w http.ResponseWriter, r *http.Request, p Ref) error {
	f.read.forgetHead(p)
	ctx := context.WithoutCancel(r.Context())
	err := f.locks.withLock(ctx, p, "delete workspace", func(l *statebackend.Lock) error {
		err := l.Delete(ctx)
		f.noteWritten(p, err)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting workspace %q: %w", p.Workspace, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func serveBytes(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", etag(data))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
