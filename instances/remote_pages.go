// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

var _ pages.Runs = (*remoteRuns)(nil)

// PhaseLog implements [pages.Runs].
func (r *remoteRuns) PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (io.ReadCloser, bool, error) {
	return r.l.driver.PhaseLog(ctx, rec, u, apply, offset)
}

// forwardRuns forwards to the leader the requests that only the leader can answer correctly.
func (l *platform) forwardRuns(kit *service.Kit) (func(own http.Handler) http.Handler, error) {
	transport, err := l.peers()
	if err != nil {
		return nil, err
	}
	refuse := func(r *http.Request) error {
		if tfe.Signed(r.URL.Path) || onPages(r) {
			return nil // the leader checks the signature, or redirects to the login
		}
		return kit.Guard.AllowLogin(r)
	}
	return func(own http.Handler) http.Handler {
		forward := portal.NewForward(portal.ForwardOptions{
			Kit: kit, Leader: l.ledger.Leader, View: l.ledger.View, Own: own, Refuse: refuse, Transport: transport, Plain: l.o.ForwardPlain,
		})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tfe.ForLeader(r, r.URL.Path) || onPages(r) {
				forward.ServeHTTP(w, r)
				return
			}
			own.ServeHTTP(w, r)
		})
	}, nil
}

// onPages reports whether a request is for a page of runs.
func onPages(r *http.Request) bool {
	return r.URL.Path == "/ui/runs" || strings.HasPrefix(r.URL.Path, "/ui/runs/")
}
