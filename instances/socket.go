// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/service"
)

// socketPurpose is the purpose under which tokens for the built-in registry are sealed.
const socketPurpose = "run registry"

// socketToken holds the rights of a run's child in the built-in registry: to write the
// repository of its instance, and to read the ledger that names its attempt.
type socketToken struct {
	Repository string `json:"r"`
	Expires    int64  `json:"e"`
}

// runRegistry serves the built-in registry to the children of runs through a socket that
// only this operating system user can reach. A child may outlive the server: the next
// server answers it at the same path.
type runRegistry struct {
	registry http.Handler
	layout   addr.Layout
	keys     *keyring.Ring
	now      func() time.Time
}

// socketToken returns the token that the child of a run presents.
func (s *runRegistry) socketToken(repository string, until time.Time) (string, error) {
	return s.keys.Seal(socketPurpose, socketToken{repository, until.Unix()})
}

func (s *runRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, sealed, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	var t socketToken
	if !strings.EqualFold(scheme, "Bearer") || s.keys.Open(socketPurpose, sealed, &t) != nil || s.now().Unix() >= t.Expires {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+httpserve.OwnRegistry+`/token",service="okara"`)
		service.WriteError(w, r, http.StatusUnauthorized, "run token required")
		return
	}
	if !s.isAllowed(r, t.Repository) {
		service.WriteError(w, r, http.StatusForbidden, "not allowed for this run")
		return
	}
	s.registry.ServeHTTP(w, r)
}

func (s *runRegistry) isAllowed(r *http.Request, own string) bool {
	if !service.CleanPath(r.URL.Path) || !strings.HasPrefix(r.URL.Path, "/v2/") {
		return false
	}
	if r.URL.Path == "/v2/" {
		return true
	}
	for _, from := range r.URL.Query()["from"] {
		if from != own {
			return false
		}
	}
	repository := embedded.RepositoryOf(r.URL.Path)
	if repository == own {
		return true
	}
	item, ok := s.layout.Parse(repository)
	return ok && item.Kind == addr.KindLedger && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

func (l *platform) socketFile() string { return filepath.Join(l.storage, "runs.sock") }

func (l *platform) answerRuns(ctx context.Context) error {
	srv, err := httpserve.ListenUnix(l.socketFile(), httpserve.Options{Handler: l.socket, Logger: l.base.Env.Debug, Drain: time.Second})
	if err != nil {
		return err
	}
	return srv.Serve(ctx)
}
