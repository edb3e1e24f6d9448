// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of a change of status.
const (
	maxStatusRequest = 16 << 10
	maxMessage       = 300
	maxActor         = 128
)

// moduleStatus deprecates or withdraws a version of a module, or takes that
// back.
func (s *server) moduleStatus(w http.ResponseWriter, r *http.Request) error {
	m, g, err := s.moduleVersionOf(r, access.Publish)
	if err != nil {
		return err
	}
	return s.changeStatus(w, r, g, m.Module.String(), m.Version, s.o.Layout.Module(m.Module))
}

// providerStatus is moduleStatus for an own provider.
func (s *server) providerStatus(w http.ResponseWriter, r *http.Request) error {
	p, v, repository, g, err := s.releaseOf(r, access.Publish)
	if err != nil {
		return err
	}
	return s.changeStatus(w, r, g, p.String(), v, repository)
}

// changeStatus writes the event. Signatures are not among the actions: a
// resign event needs the files that `okara sign` makes.
func (s *server) changeStatus(w http.ResponseWriter, r *http.Request, g access.Grant, address string, v addr.Version, repository string) error {
	var in struct {
		Action      string `json:"action"`
		Message     string `json:"message"`
		Replacement string `json:"replacement"`
	}
	if err := s.readJSON(r, maxStatusRequest, &in); err != nil {
		return err
	}
	if !slices.Contains([]string{artifact.ActionDeprecate, artifact.ActionUndeprecate, artifact.ActionYank, artifact.ActionUnyank}, in.Action) {
		return unprocessable(fmt.Errorf("action %q: want deprecate, undeprecate, yank or unyank", in.Action))
	}
	if len(in.Message) > maxMessage || len(in.Replacement) > maxMessage {
		return unprocessable(fmt.Errorf("a message or replacement of more than %d bytes", maxMessage))
	}
	repo, err := s.o.Client.Repo(repository)
	if err != nil {
		return err
	}
	if _, err := repo.Resolve(r.Context(), v.Tag()); err != nil {
		return missing(err, "%s %s %s", g.Kind(), address, v)
	}
	e, err := artifact.PutStatusEvent(r.Context(), repo, artifact.StatusEvent{
		Action: in.Action, Version: v.String(), Message: in.Message, Replacement: in.Replacement, Actor: shorten(g.Subject, maxActor), Time: s.now(),
	})
	s.published(g, address, access.Change{Action: access.Action(in.Action), Version: v.String()}, depot.Published{}, err)
	if err != nil {
		return publishError(err)
	}
	s.catalog.Changed(repository, v.Tag())
	return writeDocument(w, http.StatusCreated, map[string]string{"repository": s.reference(r, repo.String()), "tag": e.Tag, "action": e.Action})
}
