// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// healthz says that the process runs.
func healthz(w http.ResponseWriter, _ *http.Request) error {
	return say(w, "ok\n")
}

// readyz says that the registry has answered once. An outage later does not
// take the front-end out of service, since its caches go on answering. A full
// disk of the built-in registry does: somebody has to free space on it.
func (f *Front) readyz(w http.ResponseWriter, r *http.Request) error {
	if f.closing.Load() {
		return &service.Error{Status: http.StatusServiceUnavailable, Text: "shutting down"}
	}
	if !f.ready.Load() {
		err := f.Protocols.Catalog().Ping(r.Context())
		if f.o.PassThrough != nil && errors.Is(err, oci.ErrUnauthenticated) {
			err = nil // it has answered, and it is the callers who bring credentials
		}
		if err != nil {
			if last := f.unready.Swap(new(err.Error())); last == nil || *last != err.Error() {
				f.kit.Log(r).Warn("registry not reached", "error", err)
			}
			return &service.Error{Status: http.StatusServiceUnavailable, Text: cmp.Or(service.Refusal(err), "the registry has not answered yet")}
		}
		f.ready.Store(true)
	}
	if f.o.Room != nil {
		if err := f.o.Room(); err != nil {
			return &service.Error{Status: http.StatusServiceUnavailable, Text: "the disk of the storage folder is full: only locks and small states are written"}
		}
	}
	return say(w, "ready\n")
}

func say(w http.ResponseWriter, body string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprint(w, body) // the client is gone; there is nobody to tell
	return nil
}
