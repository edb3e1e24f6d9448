// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestTemplate publishes a template, publishes it again, and publishes other
// content, on every kind of registry.
func TestTemplate(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx, r := t.Context(), ocitest.Repo(t, host)
		v := must.Get(addr.ParseVersion("1.0.0+b"))(t)
		if _, _, err := readTemplate(ctx, r, v.Tag()); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("not a template: %v", err)
		}
		for i := range 2 {
			d, existing, err := artifact.PutTemplate(ctx, r, "sandbox/vpc", v, []byte(`{"a":1}`))
			if err != nil || existing != (i == 1) || d.Digest == "" {
				t.Errorf("put %d: %v, %v, %v", i, d.Digest, existing, err)
			}
		}
		if _, _, err := artifact.PutTemplate(ctx, r, "sandbox/vpc", v, []byte(`{"a":2}`)); !errors.Is(err, oci.ErrExists) {
			t.Errorf("other content: %v", err)
		}
		m, body, err := readTemplate(ctx, r, v.Tag())
		if err != nil || string(body) != `{"a":1}` || m.Name != "sandbox/vpc" || m.Version != v {
			t.Errorf("got %s of %s %s, %v", body, m.Name, m.Version, err)
		}
		if _, _, err := artifact.PutTemplate(ctx, r, "a/b", v, make([]byte, artifact.MaxTemplate+1)); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		must.Get(jobs.AddJob(ctx, r, jobs.Recorded{ID: "x", Time: time.Now()}))(t)
		if _, _, err := readTemplate(ctx, r, jobs.JobTag("x")); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("template of a job: %v", err)
		}
	})
}

// readTemplate reads the template under a tag, or of a digest.
func readTemplate(ctx context.Context, r *oci.Repo, ref string) (artifact.TemplateManifest, []byte, error) {
	m, err := r.Fetch(ctx, ref)
	if err != nil {
		return artifact.TemplateManifest{}, nil, err
	}
	t, err := artifact.ParseTemplate(m)
	if err != nil {
		return artifact.TemplateManifest{}, nil, err
	}
	body, err := r.ReadBlob(ctx, t.Layer, artifact.MaxTemplate)
	return t, body, err
}
