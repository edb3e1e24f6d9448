// SPDX-License-Identifier: Apache-2.0

package driver

import (
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

// repoOf returns the repository of an instance, and the workspace of its state there.
func repoOf(o *Options, template, id string) (records.InstanceRepo, string, error) {
	namespace, name, ok := strings.Cut(template, "/")
	if !ok {
		return records.InstanceRepo{}, "", fmt.Errorf("template %q: must be NAMESPACE/NAME", template)
	}
	path, workspace, err := o.Layout.Instance(namespace, name, id)
	if err != nil {
		return records.InstanceRepo{}, "", err
	}
	repo, err := o.Client.Repo(path)
	return records.InstanceRepo{Repo: repo, Sealer: o.Sealer}, workspace, err
}

// attemptOf returns the attempt of a record's run, and its template.
func attemptOf(o *Options, d *lifecycle.Document, rec *lifecycle.Record) (run.Attempt, *template.Template, error) {
	n := rec.Run
	a, err := run.New(d.Templates, rec, o.Config)
	if err != nil {
		return a, nil, err
	}
	t := d.Templates[a.Snapshot]
	repo, workspace, err := repoOf(o, rec.Template, rec.ID)
	if err != nil {
		return a, nil, err
	}
	timeout := a.Limits.Timeout
	a.Limits = o.Limits
	a.Limits.Timeout = timeout
	a.Machine = run.Machine{
		Handle: run.Handle(n.Handle), Snapshot: a.Snapshot, Repository: repo.Repo.String(), Workspace: workspace, Ledger: o.Ledger(),
		Sensitive: sensitiveVariables(o, rec, t, a.Variables), Approve: n.Kind == lifecycle.RunPlan,
		Took: lockOfPrevious(rec), RequireLock: t.RequireLock, Stored: lifecycle.HasResources(rec),
	}
	if rec.Workspace != "" {
		if err := addRemote(o, &a, rec); err != nil {
			return a, nil, err
		}
	}
	if n.Kind == lifecycle.RunApply && n.Approved != "" && n.Plan != "" {
		a.Plan = n.Plan
		a.PlanTag = records.InstanceTag{Kind: records.TagRun, ID: rec.ID, N: n.N, Attempt: n.Planned}.String()
	}
	return a, t, nil
}

// sensitiveVariables names what no log may show: all that may be secret, if the schema is gone.
func sensitiveVariables(o *Options, rec *lifecycle.Record, t *template.Template, variables map[string]json.RawMessage) []string {
	names := slices.Clone(rec.Sensitive)
	e, ok := o.Templates.Current(rec.Template)
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

// lockOfPrevious returns the ID of the lock that the previous attempt may have left, or "".
func lockOfPrevious(rec *lifecycle.Record) string {
	n := rec.Run
	switch {
	case n.Before != "":
		return run.LockID(lifecycle.Ref{ID: rec.ID, N: n.N, Attempt: n.Attempt - 1, Nonce: n.Before})
	case len(rec.Runs) > 0 && rec.Runs[0].Nonce != "":
		return run.LockID(rec.Runs[0].Ref(rec.ID))
	}
	return ""
}

// isPinned reports whether the previous run succeeded and tagged what this one executes.
func isPinned(rec *lifecycle.Record) bool {
	n := rec.Run
	if len(rec.Runs) == 0 || rec.Runs[0].Result != lifecycle.Done {
		return false
	}
	return rec.Runs[0].Source == n.Source && (n.Snapshot == "" || n.Snapshot == rec.Snapshot)
}

// pinSource tags what a run executes in the instance's repository, away from retention elsewhere;
// before the first run it also records where the state will be.
func pinSource(ctx context.Context, o *Options, rec *lifecycle.Record, t *template.Template) error {
	if rec.Workspace != "" { // its source is an upload in this repository
		if err := untagOldRuns(ctx, o, rec); err != nil && !isPassing(err) {
			return err
		}
		return nil
	}
	if isPinned(rec) {
		return nil
	}
	n := rec.Run
	repo, _, err := repoOf(o, rec.Template, rec.ID)
	if err != nil {
		return err
	}
	if len(rec.Runs) == 0 {
		queue, err := o.Client.Repo(o.Layout.QueueRepo())
		if err != nil {
			return err
		}
		if err := records.AddInstanceEntry(ctx, queue, rec.ID, rec.Template, repo.Repo.Name()); err != nil {
			return err
		}
	}
	zip, err := findArchive(ctx, o, repo.Repo, n.Source, len(rec.Runs) == 0)
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

// findArchive returns the archive of a module, from the instance's repository or mounted.
func findArchive(ctx context.Context, o *Options, own *oci.Repo, s template.Source, first bool) (oci.Blob, error) {
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
	from, err := o.Client.Repo(o.Layout.Module(m))
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
