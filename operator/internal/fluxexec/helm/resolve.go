// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// Found is a chart as source-controller has it.
type Found struct {
	Version string // or its tag, or the first digits of its digest or commit
	Digest  string // sha256: of the manifest or the archive; of a chart in git sha1: and the commit
}

// PendingError says that source-controller has not looked for a chart yet.
type PendingError struct{ Kind, Name string }

func (e *PendingError) Error() string {
	return fmt.Sprintf("source-controller has not fetched %s %s yet", e.Kind, e.Name)
}

// Resolve has source-controller look for the chart of a Spec, of which only Namespace,
// Name, UID, Labels and Chart count, and tells what it means now. The objects that look
// for it go with their owner.
func (e *Executor) Resolve(ctx context.Context, s Spec, owner metav1.OwnerReference) (Found, error) {
	if err := s.Chart.check(); err != nil {
		return Found{}, err
	}
	objects := []any{s.source()}
	if s.Chart.HTTP != nil {
		objects = append(objects, s.lookup())
	}
	var live *unstructured.Unstructured
	for _, o := range objects {
		want, err := fluxobj.Encode(o)
		if err != nil {
			return Found{}, err
		}
		want.SetOwnerReferences([]metav1.OwnerReference{owner})
		if live, _, err = e.as(&s).Ensure(ctx, want); err != nil {
			return Found{}, err
		}
		if err := fetched(live); err != nil {
			return Found{}, err
		}
	}
	return s.Chart.found(live), nil
}

// Unlook deletes what [Executor.Resolve] made for a chart of another kind.
func (e *Executor) Unlook(ctx context.Context, s Spec) error {
	for _, kind := range []string{fluxobj.OCIKind, httpKind, gitKind, chartKind} {
		if kind == s.Chart.sourceKind() || kind == chartKind && s.Chart.HTTP != nil {
			continue
		}
		if _, err := e.as(&s).Clean(ctx, fluxobj.SourceVersion, kind, s.key()); err != nil {
			return err
		}
	}
	return nil
}

// lookup finds a version in the index of a repository.
func (s *Spec) lookup() *httpChart {
	h := s.Chart.HTTP
	return &httpChart{s.meta(fluxobj.SourceVersion, chartKind), httpChartSpec{
		chartSpec: chartSpec{Chart: h.Chart, Version: h.Version, SourceRef: sourceRef{Kind: httpKind, Name: s.Name}}, Interval: s.interval(),
	}}
}

// fetched is nil for an object of source-controller that has what it is to have. While a
// fetch fails, the condition alone says of which generation it is.
func fetched(o *unstructured.Unstructured) error {
	ready := fluxobj.Conditions(o)["Ready"]
	seen := max(ready.Generation, fluxobj.Number(o, "status", "observedGeneration"))
	switch {
	case ready.False() && seen == o.GetGeneration():
		return fmt.Errorf("%s %s: %s", o.GetKind(), o.GetName(), ready.Message)
	case !ready.True() || fluxobj.Number(o, "status", "observedGeneration") != o.GetGeneration():
		return &PendingError{o.GetKind(), o.GetName()}
	}
	return nil
}

func (c Chart) found(o *unstructured.Unstructured) Found {
	revision := fluxobj.Text(o, "status", "artifact", "revision")
	if c.HTTP != nil {
		return Found{revision, fluxobj.Text(o, "status", "artifact", "digest")}
	}
	f := Found{Digest: revision} // NAME@ALGORITHM:HEX or ALGORITHM:HEX
	if i := strings.LastIndex(revision, "@"); i >= 0 {
		f.Version, f.Digest = revision[:i], revision[i+1:]
	}
	if named := c.OCI != nil || c.Git.Tag != "" || c.Git.Semver != ""; !named || f.Version == "" {
		f.Version = short(f.Digest)
	}
	return f
}

// shortest is how many digits of a digest or a commit tell it from others.
const shortest = 12

func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(len(hex), shortest)]
}
