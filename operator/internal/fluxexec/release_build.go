// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

const (
	releaseVersion, releaseKind = "helm.toolkit.fluxcd.io/v2", "HelmRelease"
	httpKind                    = "HelmRepository"
	gitKind                     = "GitRepository"
	chartKind                   = "HelmChart"
)

// tries is how often a failed install or upgrade is retried.
const tries = 3

// annotationReset makes helm-controller reset its failure counters if its value equals
// that of the request, so that another attempt starts afresh (H5).
const annotationReset = "reconcile.fluxcd.io/resetAt"

// AccountError says that the account of a release does not exist.
type AccountError struct{ Namespace, Name string }

func (e *AccountError) Error() string {
	return fmt.Sprintf("ServiceAccount %s is missing in namespace %s: recreate it with its rights, or the resources of the release would remain", e.Name, e.Namespace)
}

func (r Release) about() about {
	at := client.ObjectKey{Namespace: cmp.Or(r.ChartNamespace, r.Namespace), Name: r.Name}
	return about{releaseVersion, releaseKind, r.Chart.sourceKind(), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, at, r.UID, "", r.Attempt}
}

func (r Release) build() (source, main any, err error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	return r.source(), r.release(), nil
}

func (r *Release) head(apiVersion, kind, namespace string) head {
	return headOf(apiVersion, kind, namespace, r.Name, fluxobj.Labels(r.Labels, r.UID))
}

// sourceKind returns the kind of the chart's source.
func (c Chart) sourceKind() string {
	switch {
	case c.HTTP != nil:
		return httpKind
	case c.Git != nil:
		return gitKind
	}
	return fluxobj.OCIKind
}

func (r *Release) source() any {
	h := r.head(fluxobj.SourceVersion, r.Chart.sourceKind(), r.about().sourceKey.Namespace)
	interval := r.interval()
	switch {
	case r.Chart.HTTP != nil:
		return &httpRepository{h, httpSpec{r.Chart.HTTP.URL, interval, nameRef{r.Chart.HTTP.Secret}}}
	case r.Chart.Git != nil:
		g := r.Chart.Git
		ref := gitRef{g.Branch, g.Tag, g.Semver, g.Commit}
		if ref == (gitRef{}) {
			ref.Branch = "main"
		}
		return &gitRepository{h, gitSpec{g.URL, interval, ref, nameRef{g.Secret}}}
	}
	o := r.Chart.OCI
	if o.Digest != "" {
		interval.Duration = 24 * time.Hour // a digest never changes
	}
	return &ociRepository{h, ociSpec{
		URL:           "oci://" + o.Repository,
		Ref:           ociRef{Digest: o.Digest, Semver: o.Semver},
		LayerSelector: layerSelector{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", "copy"},
		Interval:      interval,
		SecretRef:     nameRef{o.PullSecret},
		Insecure:      o.PlainHTTP,
	}}
}

func (r *Release) interval() metav1.Duration {
	return metav1.Duration{Duration: cmp.Or(r.Interval.Duration, 10*time.Minute)}
}

func (r *Release) release() *release {
	retry := action{Remediation: remediation{Retries: tries}}
	spec := releaseSpec{
		Interval:           r.interval(),
		Timeout:            r.Timeout,
		Suspend:            r.Suspend,
		ServiceAccountName: r.ServiceAccountName,
		ReleaseName:        r.Name,
		TargetNamespace:    r.Namespace,
		StorageNamespace:   r.Namespace,
		Install:            retry,
		Upgrade:            retry,
		DriftDetection:     driftDetection{Mode: mode(r.Drift)},
		Values:             r.Values,
	}
	if spec.Values == nil {
		spec.Values = json.RawMessage("{}")
	}
	ref := sourceRef{Kind: r.Chart.sourceKind(), Name: r.Name, Namespace: r.ChartNamespace}
	switch {
	case r.Chart.OCI != nil:
		spec.ChartRef = ref
	case r.Chart.HTTP != nil:
		spec.Chart = r.chart(chartSpec{Chart: r.Chart.HTTP.Chart, Version: r.Chart.HTTP.Version, SourceRef: ref})
	case r.Chart.Git != nil:
		spec.Chart = r.chart(chartSpec{Chart: "./" + r.Chart.Git.Path, SourceRef: ref, ReconcileStrategy: "Revision"})
	}
	for _, from := range r.ValuesFrom {
		spec.ValuesFrom = append(spec.ValuesFrom, valuesFrom{"Secret", from.Secret, from.Key})
	}
	o := &release{head: r.head(releaseVersion, releaseKind, r.Namespace), Spec: spec}
	o.Metadata.Annotations = attempt(r.Attempt)
	return o
}

// chart returns the template from which helm-controller creates a HelmChart, with our
// labels.
func (r *Release) chart(spec chartSpec) chartTemplate {
	return chartTemplate{Metadata: chartMeta{fluxobj.Labels(r.Labels, r.UID)}, Spec: spec}
}

func mode(d Drift) string {
	switch d {
	case DriftReport:
		return "warn"
	case DriftIgnore:
		return "disabled"
	}
	return "enabled"
}

func (r Release) adjust(_, main *unstructured.Unstructured) error {
	fluxobj.Annotate(main, annotationReset, main.GetAnnotations()[fluxobj.AnnotationRequest])
	return nil
}

func (r Release) stopped(*unstructured.Unstructured) map[string]any {
	return map[string]any{"suspend": true}
}

// ending requires the account of a release to exist until the installed resources are
// gone (H2), and suspends the release exactly if those shall stay (H3).
func (r Release) ending(ctx context.Context, c fluxobj.Client, live, _ *unstructured.Unstructured) (map[string]any, error) {
	if live.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if !r.Keep {
		name := fluxobj.Text(live, "spec", "serviceAccountName")
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &corev1.ServiceAccount{})
		if apierrors.IsNotFound(err) {
			return nil, &AccountError{r.Namespace, name}
		}
		if err != nil {
			return nil, err
		}
	}
	if fluxobj.Suspended(live) == r.Keep {
		return nil, nil
	}
	return map[string]any{"spec": map[string]any{"suspend": r.Keep}}, nil
}

// rest removes the HelmChart of a release that was kept (H4).
func (r Release) rest(ctx context.Context, c fluxobj.Client) (gone bool, err error) {
	if r.Chart.OCI != nil {
		return true, nil
	}
	return c.Clean(ctx, fluxobj.SourceVersion, chartKind, client.ObjectKey{Namespace: r.about().sourceKey.Namespace, Name: r.Namespace + "-" + r.Name})
}

// observe reports chart versions as the revisions.
func (r Release) observe(live *unstructured.Unstructured) Status {
	conditions := fluxobj.Conditions(live)
	ready := conditions["Ready"]
	status := statusOf(live, ready)
	status.Failures = fluxobj.Number(live, "status", "failures")
	status.PlannedRevision = fluxobj.Text(live, "status", "lastAttemptedRevision")
	status.AppliedRevision = installed(live)
	switch {
	case live.GetDeletionTimestamp() != nil:
		status.Phase = Destroying
	case fluxobj.Suspended(live):
		status.Phase = Suspended
	case !fluxobj.Observed(live) || status.Attempt != r.Attempt:
	case ready.True() && r.pinned(live):
		status.Phase = Applied
		if r.Drift == DriftReport && conditions["Drifted"].True() {
			status.Phase = Drifted
			status.Message = conditions["Drifted"].Message
		}
	case ready.False() && conditions["Stalled"].True():
		status.Phase = Failed
	}
	return status.failing(live, ready)
}

// pinned reports whether the release has the digest or the commit that it names, if any.
// The version of a chart from Git contains the first digits of its commit.
func (r *Release) pinned(live *unstructured.Unstructured) bool {
	switch {
	case r.Chart.OCI != nil && r.Chart.OCI.Digest != "":
		return strings.HasSuffix(fluxobj.Text(live, "status", "lastAttemptedRevisionDigest"), r.Chart.OCI.Digest)
	case r.Chart.Git != nil && r.Chart.Git.Commit != "":
		return strings.Contains(fluxobj.Text(live, "status", "lastAttemptedRevision"), "+"+r.Chart.Git.Commit[:shortest])
	}
	return true
}

// installed returns the version of the chart that was installed last.
func installed(live *unstructured.Unstructured) string {
	history, _, _ := unstructured.NestedSlice(live.Object, "status", "history") // invalid means none
	if len(history) == 0 {
		return ""
	}
	last, _ := history[0].(map[string]any)
	version, _ := last["chartVersion"].(string)
	return version
}

// Found identifies a chart that source-controller has found.
type Found struct {
	Version string // the version of the chart, its tag, or the first digits of its digest or commit
	Digest  string // sha256: of the manifest or the archive; for a chart in Git, sha1: and the commit
}

// PendingError says that source-controller has not fetched a chart yet.
type PendingError struct{ Kind, Name string }

func (e *PendingError) Error() string {
	return fmt.Sprintf("source-controller has not fetched %s %s yet", e.Kind, e.Name)
}

// Resolve has source-controller look up the chart of a Release, of which only Namespace,
// Name, UID, Labels and Chart count, and returns the current version. The objects of the
// lookup are deleted with their owner.
func (e *Executor) Resolve(ctx context.Context, r Release, owner metav1.OwnerReference) (Found, error) {
	if err := r.Chart.check(); err != nil {
		return Found{}, err
	}
	objects := []any{r.source()}
	if r.Chart.HTTP != nil {
		objects = append(objects, r.lookup())
	}
	c := fluxobj.Client{Client: e.Client, UID: r.UID}
	var live *unstructured.Unstructured
	for _, o := range objects {
		want, err := fluxobj.Encode(o)
		if err != nil {
			return Found{}, err
		}
		want.SetOwnerReferences([]metav1.OwnerReference{owner})
		if live, _, err = c.Ensure(ctx, want); err != nil {
			return Found{}, err
		}
		if err := fetched(live); err != nil {
			return Found{}, err
		}
	}
	return r.Chart.found(live), nil
}

// Unlook deletes the objects that [Executor.Resolve] created for a chart of another kind.
func (e *Executor) Unlook(ctx context.Context, r Release) error {
	for _, kind := range []string{fluxobj.OCIKind, httpKind, gitKind, chartKind} {
		if kind == r.Chart.sourceKind() || kind == chartKind && r.Chart.HTTP != nil {
			continue
		}
		if _, err := (fluxobj.Client{Client: e.Client, UID: r.UID}).Clean(ctx, fluxobj.SourceVersion, kind, r.about().key); err != nil {
			return err
		}
	}
	return nil
}

// lookup returns the HelmChart that finds a version in the index of a repository.
func (r *Release) lookup() *httpChart {
	h := r.Chart.HTTP
	return &httpChart{r.head(fluxobj.SourceVersion, chartKind, r.Namespace), httpChartSpec{
		chartSpec: chartSpec{Chart: h.Chart, Version: h.Version, SourceRef: sourceRef{Kind: httpKind, Name: r.Name}}, Interval: r.interval(),
	}}
}

// fetched returns nil if source-controller has fetched what the object describes. While a
// fetch fails, only the condition has the observed generation.
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
		f.Version = revision[:i]
		f.Digest = revision[i+1:]
	}
	if named := c.OCI != nil || c.Git.Tag != "" || c.Git.Semver != ""; !named || f.Version == "" {
		f.Version = short(f.Digest)
	}
	return f
}

// shortest is the number of digits that abbreviate a digest or a commit.
const shortest = 12

func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(len(hex), shortest)]
}
