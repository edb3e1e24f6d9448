// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/service"
)

// discoveryCache is the Cache-Control of the discovery document.
const discoveryCache = "public, max-age=300"

// discovery names the services. It is open to everybody: a refusal here would
// make `login` impossible. Where a service cannot say what it adds, the others go
// on, and the next request asks again.
func (f *Front) discovery(w http.ResponseWriter, r *http.Request) error {
	base := strings.TrimSuffix(f.o.BasePath, "/")
	doc, cacheControl := map[string]any{}, discoveryCache
	for _, s := range f.adding {
		added, err := s.adds(r.Context(), base)
		if err != nil {
			cacheControl = "no-store"
			continue
		}
		maps.Copy(doc, added)
	}
	a, err := service.Encode(doc)
	if err != nil {
		return err
	}
	a.Write(w, r, cacheControl)
	return nil
}

// loginService is where the tools log in.
func (f *Front) loginService(ctx context.Context, base string) (map[string]any, error) {
	if f.o.Login == nil {
		return nil, nil
	}
	login, err := f.kit.Guard.LoginService(ctx, base)
	return map[string]any{"login.v1": login}, err
}

// loginExchange has its right in the body.
func (f *Front) loginExchange(w http.ResponseWriter, r *http.Request) error {
	service.OpenBody(r)
	return f.kit.Guard.LoginExchange(w, r)
}
