// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// takenRef is what a lock taken beforehand is served as: the tool uses its default workspace.
func (o Options) takenRef() Ref {
	return Ref{Repository: o.Repositories[0], Workspace: defaultWorkspace}
}

// checkTaken refuses requests for anything but the state whose lock was taken beforehand.
func (f *Facade) checkTaken(r *http.Request, p object) error {
	deletesState := r.Method == http.MethodDelete && !p.lock && !r.URL.Query().Has("uploadId")
	if f.o.Taken == nil || p.Ref == f.o.takenRef() && !deletesState {
		return nil
	}
	return &s3Error{http.StatusForbidden, "AllAccessDisabled", "this run has only one state, which cannot be deleted"}
}

// serveTakenLock lets the tool lock and unlock as it likes, which does not end the real lock.
func (f *Facade) serveTakenLock(w http.ResponseWriter, r *http.Request, p Ref) error {
	switch r.Method {
	case http.MethodPut:
		info, body, err := readLockInfo(r)
		if err != nil {
			return err
		}
		f.locks.mu.Lock()
		f.locks.shown[p] = info
		f.locks.mu.Unlock()
		w.Header().Set("ETag", etag(body))
		return nil
	case http.MethodGet, http.MethodHead:
		f.locks.mu.Lock()
		info, ok := f.locks.shown[p]
		f.locks.mu.Unlock()
		if !ok {
			return &s3Error{http.StatusNotFound, "NoSuchKey", fmt.Sprintf("the tool holds no lock of %s", p.Repository)}
		}
		return serveLockInfo(w, r, info)
	case http.MethodDelete:
		f.locks.mu.Lock()
		delete(f.locks.shown, p)
		f.locks.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errMethod(r)
}

// Persist repeats a write for up to wait while the registry is away, even if its outcome is open.
func Persist(ctx context.Context, l *statebackend.Lock, data []byte, wait time.Duration) (statebackend.Version, error) {
	begin := time.Now()
	for pause := minPersistPause; ; pause = min(2*pause, maxPersistPause) {
		v, err := l.Put(ctx, data)
		if err == nil || !oci.Passing(err) || errors.Is(err, statebackend.ErrLockLost) || time.Since(begin)+pause > wait {
			return v, err
		}
		if text.Wait(ctx, pause) != nil {
			return v, err
		}
	}
}

// The shortest and the longest wait between two attempts to write.
const (
	minPersistPause = 200 * time.Millisecond
	maxPersistPause = 10 * time.Second
)
