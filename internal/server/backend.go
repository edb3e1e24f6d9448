// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
)

// backend is the registry behind a server.
type backend struct {
	client   *oci.Client
	layout   addr.Layout
	embedded http.Handler       // nil: the registry is another server
	own      *embedded.Registry // the same, with its concrete type
	acts     *acts              // of its clients; nil: the registry is another server
	where    string

	files func(repository, sha256hex string) (*os.File, error) // opens a blob of the registry; nil: blobs are not on this machine
	with  func(oci.Credential) (*oci.Client, error)            // a client with another credential; nil: embedded
}

// newBackend returns the registry that the settings name, or the embedded one.
func (s *Settings) newBackend(env Env, m *Metrics, l addr.Layout) (backend, error) {
	if s.Registry != "" {
		return s.remoteBackend(env, m)
	}
	dir := filepath.Join(s.Storage, "registry")
	var rule depot.VersionRule // reads the registry that asks it
	h, err := embedded.New(dir, embedded.Options{Logger: env.Log, Reserve: s.GC.Reserve.Value(), Vital: isVitalRepository(l), Rule: &rule})
	if errors.Is(err, embedded.ErrInUse) {
		return backend{}, fmt.Errorf("%w\nhint: a directory can be used by one server only: set another --storage, or share a --registry between servers", err)
	}
	if info, statErr := os.Stat(s.Storage); err != nil && statErr == nil && !info.IsDir() {
		return backend{}, &syntax.SettingError{Err: fmt.Errorf("--storage: %s is a file, not a folder", s.Storage)}
	}
	if err != nil {
		return backend{}, fmt.Errorf("open storage %s: %w", dir, err)
	}
	o := oci.Options{Transport: m.Transport(httpserve.Traced(inProcess{h})), PlainHTTP: true, SinglePost: true, UserAgent: env.OCI.UserAgent, Logger: env.Debug}
	c, err := oci.New(httpserve.OwnRegistry, o)
	rule.Depot = depot.New(depot.Options{Client: c, Layout: l})
	return backend{client: c, embedded: h, own: h, acts: newActs(), files: h.OpenBlob, where: dir}, err
}

// isVitalRepository says what may be written on a full disk: states with locks, and the ledger.
func isVitalRepository(l addr.Layout) func(string) bool {
	return func(repository string) bool {
		it, ok := l.Parse(repository)
		return ok && (it.Kind == addr.KindState || it.Kind == addr.KindLedger) || l.BelowState(repository)
	}
}

func (s *Settings) remoteBackend(env Env, m *Metrics) (backend, error) {
	host, _, err := addr.SplitRegistry(s.Registry)
	if err != nil {
		return backend{}, &syntax.SettingError{Err: err}
	}
	o := env.OCI
	o.Transport = newLimited(m.Transport(o.Transport)) // inside the limit, so that waiting does not count as time of the registry
	o.Retry = oci.Retry{MaxAttempts: 4, InitialBackoff: 200 * time.Millisecond, MaxBackoff: 2 * time.Second}
	with := func(c oci.Credential) (*oci.Client, error) {
		own := o
		own.Credential = func(context.Context, string, string) (oci.Credential, error) { return c, nil }
		own.Rejected = nil
		return oci.New(host, own)
	}
	c, err := oci.New(host, o)
	return backend{client: c, where: s.Registry, with: with}, err
}

// gcSchedule returns when the embedded registry frees space, with a callback for metrics.
func (g *GC) gcSchedule(m *Metrics) embedded.Schedule {
	return embedded.Schedule{Every: g.Interval.Value(), MinAge: g.MinAge.Value(), Done: func(c embedded.Collected, err error) {
		if err == nil {
			m.recordCollection(c.Bytes, c.Used)
		}
	}}
}
