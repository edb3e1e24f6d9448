// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec/helm"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// Charts asks source-controller what charts are, for the statuses of Templates. It
// implements [instancectl.Charts].
type Charts struct {
	Helm      *helm.Executor
	Registry  string // HOST[:PORT] of the operator's registry
	PlainHTTP bool   // to that
}

// Resolve is what the chart of a Template means now, fixed by digest, version or commit.
func (c Charts) Resolve(ctx context.Context, o *v1alpha1.Template) (template.Source, error) {
	source := instancectl.ChartSource(o.Spec.Chart)
	chart := chartOf(o.Spec.Chart)
	fetchedBy(chart, source.Secret)
	insecure(chart, c.Registry, c.PlainHTTP)
	s := helm.Spec{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Labels: map[string]string{v1alpha1.LabelTemplate: o.Name}, Chart: chart}
	if o.Status.ObservedGeneration != o.Generation {
		if err := c.Helm.Unlook(ctx, s); err != nil {
			return template.Source{}, err
		}
	}
	found, err := c.Helm.Resolve(ctx, s, *metav1.NewControllerRef(o, v1alpha1.GroupVersion().WithKind("Template")))
	if _, pending := errors.AsType[*helm.PendingError](err); pending {
		return template.Source{}, fmt.Errorf("%w: %w", instancectl.ErrPending, err)
	}
	source.Version, source.Digest = found.Version, found.Digest
	return source, err
}

// chartOf is a chart as its Template names it.
func chartOf(c *v1alpha1.Chart) helm.Chart {
	switch {
	case c.OCI != nil:
		return helm.Chart{OCI: &helm.OCI{Repository: strings.TrimPrefix(c.OCI.URL, ociScheme), Digest: c.OCI.Digest, Semver: c.OCI.Version}}
	case c.Helm != nil:
		return helm.Chart{HTTP: &helm.HTTP{URL: c.Helm.URL, Chart: c.Helm.Name, Version: c.Helm.Version}}
	}
	return helm.Chart{Git: &helm.Git{
		URL: c.Git.URL, Path: c.Git.Path, Branch: c.Git.Branch, Tag: c.Git.Tag, Semver: c.Git.Semver, Commit: c.Git.Commit,
	}}
}

const (
	ociScheme = "oci://"
	ofCommit  = "sha1:"
)

// pinned is the chart of a source, exactly that one.
func pinned(s template.Source) helm.Chart {
	if repository, ok := strings.CutPrefix(s.Chart, ociScheme); ok {
		return helm.Chart{OCI: &helm.OCI{Repository: repository, Digest: s.Digest}}
	}
	if commit, ok := strings.CutPrefix(s.Digest, ofCommit); ok {
		return helm.Chart{Git: &helm.Git{URL: s.Chart, Path: s.Path, Commit: commit}}
	}
	return helm.Chart{HTTP: &helm.HTTP{URL: s.Chart, Chart: s.Path, Version: s.Version}}
}

// fetchedBy has a chart fetched by a Secret beside its source; "": anonymously.
func fetchedBy(c helm.Chart, secret string) {
	switch {
	case c.OCI != nil:
		c.OCI.PullSecret = secret
	case c.HTTP != nil:
		c.HTTP.Secret = secret
	case c.Git != nil:
		c.Git.Secret = secret
	}
}

// insecure has a chart fetched without TLS, where the registry of the operator is used so.
func insecure(c helm.Chart, registry string, plain bool) {
	if c.OCI == nil || !plain {
		return
	}
	host, _, _ := strings.Cut(c.OCI.Repository, "/")
	c.OCI.PlainHTTP = host == registry
}
