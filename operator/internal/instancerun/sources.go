// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// Charts resolves charts by source-controller, as [instancectl.Charts].
type Charts struct {
	Flux      *fluxexec.Executor
	Registry  string // HOST[:PORT] of the operator's registry
	PlainHTTP bool   // to that registry
}

// Resolve returns the chart that a Template refers to now, by digest, version or commit.
func (c Charts) Resolve(ctx context.Context, o *v1alpha1.Template) (template.Source, error) {
	source := instancectl.ChartSource(o.Spec.Chart)
	s := fluxexec.Release{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, Labels: map[string]string{v1alpha1.LabelTemplate: o.Name}, Chart: *o.Spec.Chart,
		PlainHTTP: c.PlainHTTP && isIn(c.Registry, o.Spec.Chart),
	}
	if o.Status.ObservedGeneration != o.Generation {
		if err := c.Flux.Unlook(ctx, s); err != nil {
			return template.Source{}, err
		}
	}
	found, err := c.Flux.Resolve(ctx, s, *metav1.NewControllerRef(o, v1alpha1.GroupVersion().WithKind("Template")))
	if _, pending := errors.AsType[*fluxexec.PendingError](err); pending {
		return template.Source{}, fmt.Errorf("%w: %w", instancectl.ErrPending, err)
	}
	source.Version = found.Version
	source.Digest = found.Digest
	return source, err
}

const (
	ociScheme = "oci://"
	ofCommit  = "sha1:"
)

func pinnedChart(s template.Source) v1alpha1.Chart {
	var c v1alpha1.Chart
	if s.Secret != "" {
		c.SecretRef = &v1alpha1.SecretRef{Name: s.Secret}
	}
	if strings.HasPrefix(s.Chart, ociScheme) {
		c.OCI = &v1alpha1.ChartOCI{URL: s.Chart, Digest: s.Digest}
	} else if commit, ok := strings.CutPrefix(s.Digest, ofCommit); ok {
		c.Git = &v1alpha1.ChartGit{URL: s.Chart, Path: s.Path, Commit: commit}
	} else {
		c.Helm = &v1alpha1.ChartHelm{URL: s.Chart, Name: s.Path, Version: s.Version}
	}
	return c
}

// isIn reports whether a chart is in a registry, HOST[:PORT].
func isIn(registry string, c *v1alpha1.Chart) bool {
	return c.OCI != nil && strings.HasPrefix(c.OCI.URL, ociScheme+registry+"/")
}

// Modules is the access to a registry, as [instancectl.Modules].
type Modules struct{ Catalog *catalog.Catalog }

// Resolve returns the version of a module that a template refers to now.
func (m Modules) Resolve(ctx context.Context, ref template.ModuleRef) (template.Source, template.Module, error) {
	return templatesource.Resolve(ctx, m.Catalog, ref)
}

// Versions returns those that a template accepts, the highest first.
func (m Modules) Versions(ctx context.Context, ref template.ModuleRef, n int) ([]template.Source, error) {
	if ref.Pinned() {
		return nil, nil
	}
	module, err := addr.ParseModule(ref.Address)
	if err != nil {
		return nil, err
	}
	fits, err := addr.ParseConstraint(ref.Version)
	if err != nil {
		return nil, err
	}
	list, err := m.Catalog.Versions(ctx, module.Item())
	if err != nil {
		return nil, err
	}
	taken := slices.DeleteFunc(slices.Clone(list.Listed), func(v addr.Version) bool { return !fits.Allows(v) })
	slices.SortFunc(taken, func(a, b addr.Version) int { return b.Compare(a) })
	var all []template.Source
	for _, v := range taken[:min(len(taken), n)] {
		found, err := m.Catalog.ModuleVersion(ctx, module, v)
		if errors.Is(err, oci.ErrNotFound) { // a policy withholds the version
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, template.Source{
			Module: module.String(), Version: v.String(), Digest: found.Manifest.Digest.String(), Archive: found.Zip.Digest.String(), Size: found.Zip.Size, Path: ref.Path,
		})
	}
	return all, nil
}
