// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/statebackend"
)

// recordUsage serves requests whose writes are recorded with what the state was made of.
func recordUsage(h http.Handler, record func(state, before []byte) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(statebackend.WithUsage(r.Context(), record)))
	})
}

// ParseLock returns the providers in a lock file with one hash each, h1 rather than zh.
func ParseLock(b []byte) ([]usage.Provider, error) {
	file, err := lockfile.Parse(lockfile.Name, b)
	if err != nil {
		return nil, err
	}
	var all []usage.Provider
	for _, p := range file.Providers {
		one := usage.Provider{Source: p.Address.String(), Version: p.Version.String(), Constraints: p.Constraints}
		if len(p.Hashes) > 0 {
			one.Hash = slices.Min(p.Hashes)
		}
		all = append(all, one)
	}
	return all, nil
}
