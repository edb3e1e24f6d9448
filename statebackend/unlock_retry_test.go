// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// servedRegistry is a registry on a directory.
type servedRegistry struct {
	*httptest.Server
	storage io.Closer
}

// startRegistry serves a registry at a given address.
func startRegistry(t testing.TB, host, dir string) servedRegistry {
	t.Helper()
	l := must.Get(net.Listen("tcp", host))(t)
	h := must.Get(embedded.New(dir, embedded.Options{}))(t)
	s := servedRegistry{&httptest.Server{Listener: l, Config: &http.Server{Handler: h}}, h}
	s.Start()
	t.Cleanup(s.stop)
	return s
}

// stop cuts all connections of the registry.
func (s servedRegistry) stop() {
	s.CloseClientConnections()
	s.Close()
	_ = s.storage.Close() // it may be closed already
}

// warned passes on the first warning.
type warned struct {
	slog.Handler
	text chan string
}

func (w warned) Handle(_ context.Context, r slog.Record) error {
	select {
	case w.text <- r.Message:
	default:
	}
	return nil
}

// The registry is away when a lock is to be released: none is left, or the remedy is told.
func TestUnlockRetryingOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	registry := startRegistry(t, "127.0.0.1:0", dir)
	host := registry.Listener.Addr().String()
	w := warned{slog.NewTextHandler(os.Stderr, nil), make(chan string, 1)}
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 2, InitialBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}}))(t)
	s := statebackend.New(r, statebackend.Options{Logger: slog.New(w)})

	push := func(ctx context.Context, away func()) chan error {
		done := make(chan error, 1)
		go func() {
			done <- s.Hold(ctx, "prod", statebackend.LockInfo{ID: fmt.Sprint("run-", time.Now().UnixNano()), Who: "ci"}, func(l *statebackend.Lock) error {
				_, err := l.Put(ctx, testState(1, 100))
				away()
				return err
			})
		}()
		return done
	}
	done := push(t.Context(), func() { registry.stop() })
	if output := <-w.text; !strings.Contains(output, "retrying to release the lock for a minute") {
		t.Errorf("while it waits it says %q", output)
	}
	registry = startRegistry(t, host, dir)
	if err := <-done; err != nil {
		t.Fatalf("the registry is back: %v", err)
	}
	if locks, err := s.Locks(t.Context()); err != nil || len(locks) > 0 {
		t.Errorf("left behind: %v, %v", locks, err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	done = push(ctx, func() { registry.stop() })
	<-w.text
	interrupt()
	err := <-done
	if !oci.Passing(err) || !strings.Contains(states.Remedy(err), "hint: once the registry is back: okara state unlock "+host+"/infra/state -w prod --id run-") {
		t.Errorf("interrupted: %s", states.Remedy(err))
	}
	startRegistry(t, host, dir)
	locks, err := s.Locks(t.Context())
	if err != nil || len(locks) != 1 {
		t.Fatalf("locks %v, %v", locks, err)
	}
	if err := s.ForceUnlock(t.Context(), "prod", locks[0].Info.ID); err != nil && !errors.Is(err, oci.ErrNotFound) {
		t.Error(err)
	}
}

// The registry is restored from a backup under a lock: the error says that.
func TestRegistryRolledBack(t *testing.T) {
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	registry := startRegistry(t, "127.0.0.1:0", dir)
	host := registry.Listener.Addr().String()
	s := newStore(t, host, nil, statebackend.Options{})
	mustStore(t, s, "prod", testState(1, 100))
	registry.stop()
	must.Succeed(t, os.CopyFS(backup, os.DirFS(dir)))
	registry = startRegistry(t, host, dir)
	l := mustLock(t, s, "prod", "holder")
	mustPut(t, l, testState(2, 100))
	registry.stop()
	startRegistry(t, host, backup)
	_, err := l.Put(t.Context(), testState(3, 100))
	if !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "no longer has the lock and version 2: it was rolled back") ||
		!strings.Contains(err.Error(), "your state was saved as version 3") || strings.Contains(err.Error(), "taken over") {
		t.Errorf("after the rollback: %v", err)
	}
}
