// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
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

// readPlan reads, instead of what init left, what the saved plan was made of: a zip archive, also in Terraform.
// One that OpenTofu encrypted is not readable.
func readPlan(plan string) func(name string, limit int64) ([]byte, error) {
	return func(name string, limit int64) ([]byte, error) {
		z, err := zip.OpenReader(plan)
		if err != nil {
			return nil, fmt.Errorf("reading the plan: %v", err) // its files are not missing
		}
		defer z.Close()
		name = filepath.Base(name)
		list := name == "modules.json"
		if list {
			name = "tfconfig/modules.json"
		}
		f, err := z.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, limit))
		if list {
			b = slices.Concat([]byte(`{"Modules":`), b, []byte("}"))
		}
		return b, err
	}
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
