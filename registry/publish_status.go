// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Bounds of a change of status.
const (
	maxStatusRequest = 16 << 10
	maxMessage       = 300
	maxActor         = 128
)

// status deprecates or withdraws a version, or takes that back. Signatures are not
// among the actions: a resign event needs the files that `okara sign` makes.
func (p *publishing) status(w http.ResponseWriter, r call[stored]) error {
	var in struct {
		Action      string `json:"action"`
		Message     string `json:"message"`
		Replacement string `json:"replacement"`
	}
	if err := readJSON(r.Request, maxStatusRequest, &in); err != nil {
		return err
	}
	if !slices.Contains([]string{evidence.ActionDeprecate, evidence.ActionUndeprecate, evidence.ActionYank, evidence.ActionUnyank}, in.Action) {
		return unprocessable(fmt.Errorf("action %q: want deprecate, undeprecate, yank or unyank", in.Action))
	}
	if len(in.Message) > maxMessage || len(in.Replacement) > maxMessage {
		return unprocessable(fmt.Errorf("a message or replacement of more than %d bytes", maxMessage))
	}
	v := r.at.version
	e, warnings, err := r.depot.Announce(r.Context(), r.at.Item, depot.Announcement{
		Action: in.Action, Version: v.String(), Message: in.Message, Replacement: in.Replacement, Actor: text.Clip(r.grant.Subject, maxActor),
	})
	if errors.Is(err, oci.ErrNotFound) {
		return missing(err, "%s %s %s", r.at.Kind, r.at, v)
	}
	p.published(r.view, r.grant, r.at.String(), access.Change{Action: access.Action(in.Action), Version: v.String()}, depot.Published{}, err)
	if err != nil {
		return publishError(err)
	}
	repository := r.at.Repository(p.layout)
	r.catalog.Changed(repository, v.Tag())
	doc := map[string]any{"repository": p.reference(r.Request, r.client.Host()+"/"+repository), "tag": e.Tag, "action": e.Action}
	if len(warnings) > 0 {
		doc["warnings"] = warnings
	}
	return writeDocument(w, http.StatusCreated, doc)
}
