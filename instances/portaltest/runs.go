// SPDX-License-Identifier: Apache-2.0

package portaltest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

var _ pages.Runs = (*Server)(nil)

func (r *Server) Document(ctx context.Context) (*lifecycle.Document, error) {
	v, err := r.Store.View(ctx)
	return v.Document, err
}

// PhaseLog implements [pages.Runs]: every plan and apply has the same log.
func (r *Server) PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (io.ReadCloser, bool, error) {
	over := u.Result != "" || !apply && u.Plan != ""
	if apply && (u.Kind != lifecycle.RunApply || u.Attempt <= u.Planned) || u.Attempt == 0 {
		return nil, over, nil
	}
	from, err := r.Results.Log(ctx, rec, u, offset)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, over, nil
	}
	return from, over, err
}

func (r *Server) Do(ctx context.Context, by access.Caller, e lifecycle.Event) (lifecycle.Answer, error) {
	c := lifecycle.Command{Event: e, Actor: lifecycle.Actor{Issuer: by.Issuer, Subject: by.Subject, Label: by.Label}}
	rand.Read(c.Seed[:]) // never fails
	return r.Store.Do(ctx, c)
}

// Enqueue requests a run of a workspace, and returns the id of its record.
func (r *Server) Enqueue(t testing.TB, organization, workspace string, ask lifecycle.Ask) string {
	t.Helper()
	tmpl := &template.Template{Name: lifecycle.WorkspaceTemplate(organization), Enabled: true, Executor: "local"}
	digest := must.Get(tmpl.Digest())(t)
	anna := access.Caller{Subject: "anna"}
	must.Get(r.Do(t.Context(), anna, lifecycle.OpenWorkspace{Template: tmpl, Digest: digest, Workspace: workspace}))(t)
	d := must.Get(r.Document(t.Context()))(t)
	id := d.WorkspaceRecord(organization, workspace).ID
	source := template.Source{Digest: "sha256:ab", Archive: "sha256:cd", Size: 1}
	must.Get(r.Do(t.Context(), anna, lifecycle.Enqueue{ID: id, Template: tmpl, Digest: digest, Source: source, Ask: ask}))(t)
	return id
}
