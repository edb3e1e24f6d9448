// SPDX-License-Identifier: Apache-2.0

package service

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// routes are the patterns of all multiplexers of a [Kit].
type routes struct {
	mu       sync.Mutex // guards patterns
	patterns []string
}

// Mux is a multiplexer that records its routes in its [Kit].
type Mux struct {
	mux http.ServeMux
	kit *Kit
}

// Mux returns a multiplexer without routes.
func (k *Kit) Mux() *Mux { return &Mux{kit: k} }

// Handle adds a route, as [http.ServeMux.Handle] does.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.mux.Handle(pattern, h)
	m.kit.routes.mu.Lock()
	defer m.kit.routes.mu.Unlock()
	m.kit.routes.patterns = append(m.kit.routes.patterns, pattern)
}

// ServeHTTP implements [http.Handler].
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Routes returns the patterns of all routes, sorted.
func (k *Kit) Routes() []string {
	k.routes.mu.Lock()
	defer k.routes.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(k.routes.patterns)))
}

// CleanPath reports whether no segment is empty, relative or unprintable: muxes redirect those.
func CleanPath(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return false
	}
	if path == "/" {
		return true
	}
	for _, c := range path {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
