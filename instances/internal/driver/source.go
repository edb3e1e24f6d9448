// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// snapshot returns the template that the run of a record executes.
func snapshot(d *lifecycle.Document, rec *lifecycle.Record) (*template.Template, error) {
	key := rec.Snapshot
	if rec.Run != nil && rec.Run.Snapshot != "" {
		key = rec.Run.Snapshot
	}
	if t := d.Templates[key]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the ledger has lost the template of instance %s", rec.ID)
}

// scope returns the values that expressions of a record's template can name.
func (r sources) scope(rec *lifecycle.Record) template.Scope {
	s := template.Scope{ID: rec.ID, Owner: rec.Owner, Parameters: rec.Parameters, Claims: rec.Claims, Config: r.o.Config}
	if rec.Run != nil {
		s.Stopped = rec.Run.Off
	}
	if rec.Run != nil && rec.Run.Parameters != nil {
		s.Parameters = rec.Run.Parameters
	}
	return s
}

// repo returns the repository of an instance, and the workspace of its state there.
func (r sources) repo(template, id string) (records.InstanceRepo, string, error) {
	namespace, name, ok := strings.Cut(template, "/")
	if !ok {
		return records.InstanceRepo{}, "", fmt.Errorf("template %q: want NAMESPACE/NAME", template)
	}
	path, workspace, err := r.o.Layout.Instance(namespace, name, id)
	if err != nil {
		return records.InstanceRepo{}, "", err
	}
	repo, err := r.o.Client.Repo(path)
	return records.InstanceRepo{Repo: repo, Sealer: r.o.Sealer}, workspace, err
}

// spec returns the specification of the attempt that a record names.
func (r sources) spec(d *lifecycle.Document, rec *lifecycle.Record) (run.Spec, *template.Template, error) {
	t, err := snapshot(d, rec)
	if err != nil {
		return run.Spec{}, nil, err
	}
	repo, workspace, err := r.repo(rec.Template, rec.ID)
	if err != nil {
		return run.Spec{}, nil, err
	}
	variables, err := template.Render(t, r.scope(rec))
	if err != nil {
		return run.Spec{}, nil, fmt.Errorf("variables of template %s: %w", rec.Template, err)
	}
	n := rec.Run
	s := run.Spec{
		Ref:        lifecycle.Ref{ID: rec.ID, Kind: n.Kind, N: n.N, Attempt: n.Attempt, Nonce: n.Nonce},
		Run:        fmt.Sprintf("%s %s run %d", rec.Template, rec.ID, n.N),
		Repository: repo.Repo.String(), Workspace: workspace, Ledger: r.o.Ledger(), Source: n.Source, Snapshot: cmp.Or(n.Snapshot, rec.Snapshot),
		Variables: variables, Sensitive: r.sensitive(rec, t, variables),
		Outputs: t.Outputs, Credentials: t.Credentials, Approve: n.Kind == lifecycle.RunPlan,
		Took: tookOver(rec), Limits: r.o.Limits,
	}
	s.Limits.Timeout = t.Timeout
	if rec.Workspace != "" {
		if err := r.workspaceSpec(&s, rec); err != nil {
			return run.Spec{}, nil, err
		}
	}
	if n.Kind == lifecycle.RunApply && n.Approved != "" && n.Plan != "" {
		s.Plan = n.Plan
		s.PlanTag = records.InstanceTag{Kind: records.TagRun, ID: rec.ID, N: n.N, Attempt: n.Planned}.String()
	}
	return s, t, nil
}

// sensitive names the variables that no log may show. If the template and so the schema
// is gone, these are all variables that may contain a sensitive parameter.
func (r sources) sensitive(rec *lifecycle.Record, t *template.Template, variables map[string]json.RawMessage) []string {
	names := slices.Clone(rec.Sensitive)
	e, ok := r.o.Templates.Current(rec.Template)
	switch {
	case ok && e.Schema != nil:
		names = append(names, e.Schema.SensitiveVariables()...)
	case len(rec.Sensitive) > 0:
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			if !slices.ContainsFunc(t.Parameters, func(p template.Parameter) bool { return p.Name == name }) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tookOver returns the ID of the lock that the previous attempt may have left; "" if
// there was no previous attempt.
func tookOver(rec *lifecycle.Record) string {
	n := rec.Run
	switch {
	case n.Before != "":
		return run.LockID(lifecycle.Ref{ID: rec.ID, N: n.N, Attempt: n.Attempt - 1, Nonce: n.Before})
	case len(rec.Runs) > 0 && rec.Runs[0].Nonce != "":
		last := rec.Runs[0]
		return run.LockID(lifecycle.Ref{ID: rec.ID, N: last.N, Attempt: last.Attempt, Nonce: last.Nonce})
	}
	return ""
}

// pinned reports whether the previous run succeeded and has already tagged what this one
// executes.
func pinned(rec *lifecycle.Record) bool {
	n := rec.Run
	if len(rec.Runs) == 0 || rec.Runs[0].Result != lifecycle.Done {
		return false
	}
	return rec.Runs[0].Source == n.Source && (n.Snapshot == "" || n.Snapshot == rec.Snapshot)
}

// pin tags what a run executes in the repository of the instance, so that destroying it
// does not depend on retention elsewhere; before the first run it also records in the
// queue where the state will be.
func (r sources) pin(ctx context.Context, rec *lifecycle.Record, t *template.Template) error {
	if rec.Workspace != "" { // its source is an upload in this repository
		if err := r.forget(ctx, rec); err != nil && !passing(err) {
			return err
		}
		return nil
	}
	if pinned(rec) {
		return nil
	}
	n := rec.Run
	repo, _, err := r.repo(rec.Template, rec.ID)
	if err != nil {
		return err
	}
	if len(rec.Runs) == 0 {
		queue, err := r.o.Client.Repo(r.o.Layout.QueueRepo())
		if err != nil {
			return err
		}
		err = records.AddInstanceEntry(ctx, queue, records.InstanceEntry{ID: rec.ID, Template: rec.Template, Repository: repo.Repo.Name()})
		if err != nil {
			return err
		}
	}
	zip, err := r.zip(ctx, repo.Repo, n.Source, len(rec.Runs) == 0)
	if err != nil {
		return err
	}
	s := records.Source{Zip: zip, First: n.N == 1 && n.Attempt == 1, Annotations: map[string]string{
		"okara_template": rec.Template, "okara_module": n.Source.Module, "okara_version": n.Source.Version,
	}}
	if s.Template, err = t.Canonical(); err != nil {
		return err
	}
	if n.Source.Lock != "" {
		if s.Lock, err = repo.LockFile(ctx, digest.Digest(n.Source.Lock)); err != nil {
			return err
		}
	}
	err = repo.PutSource(ctx, rec.ID, n.N, s)
	if errors.Is(err, oci.ErrExists) {
		// An attempt of an earlier ledger put it: sources are named by digest.
		return nil
	}
	return err
}

// zip returns the archive of a module, from the repository of the instance or, mounted,
// from that of the module.
func (r sources) zip(ctx context.Context, own *oci.Repo, s template.Source, first bool) (oci.Blob, error) {
	d := digest.Digest(s.Archive)
	if !first {
		if desc, err := own.Stat(ctx, d); err == nil {
			return blobOf(ctx, own, desc, s), nil
		}
	}
	m, err := addr.ParseModule(s.Module)
	if err != nil {
		return oci.Blob{}, err
	}
	from, err := r.o.Client.Repo(r.o.Layout.Module(m))
	if err != nil {
		return oci.Blob{}, err
	}
	if s.Size > 0 { // the size that the registry would report
		return blobOf(ctx, from, oci.Descriptor{MediaType: artifact.MediaZip, Digest: d, Size: s.Size}, s), nil
	}
	desc, err := from.Stat(ctx, d)
	if err != nil {
		return oci.Blob{}, moduleError(s, err)
	}
	return blobOf(ctx, from, desc, s), nil
}

func moduleError(s template.Source, err error) error {
	return fmt.Errorf("module %s %s: %w", s.Module, s.Version, err)
}

// blobOf returns the archive of a module in a repository.
func blobOf(ctx context.Context, from *oci.Repo, d oci.Descriptor, s template.Source) oci.Blob {
	return oci.Blob{Descriptor: d, From: from, Open: func() (io.ReadCloser, error) {
		r, err := from.Open(ctx, d)
		if err != nil {
			return nil, moduleError(s, err)
		}
		return r, nil
	}}
}
