// SPDX-License-Identifier: Apache-2.0

package fluxexec

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// ociScheme begins the URL of a chart in a registry.
const ociScheme = sourcev1.OCIRepositoryPrefix

// tries is how often a failed install or upgrade is retried.
const tries = 3

// annotationReset, if equal to the request, resets helm-controller's failure counters (H5).
const annotationReset = "reconcile.fluxcd.io/resetAt"

// AccountError says that the account of a release does not exist.
type AccountError struct{ Namespace, Name string }

func (e *AccountError) Error() string {
	return fmt.Sprintf("ServiceAccount %s is missing in namespace %s: recreate it with its rights, or the resources of the release would remain", e.Name, e.Namespace)
}

func (r Release) workInfo() about {
	at := client.ObjectKey{Namespace: cmp.Or(r.ChartNamespace, r.Namespace), Name: r.Name}
	return about{helmv2.GroupVersion.String(), helmv2.HelmReleaseKind, r.sourceKind(), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, at, r.UID, "", r.Attempt}
}

func (r Release) buildObjects() (source, main any, err error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	return r.sourceObject(), r.release(), nil
}

func (r *Release) meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: r.Name, Labels: fluxobj.Labels(r.Labels, r.UID)}
}

func (r *Release) sourceKind() string {
	switch {
	case r.Chart.Helm != nil:
		return sourcev1.HelmRepositoryKind
	case r.Chart.Git != nil:
		return sourcev1.GitRepositoryKind
	}
	return sourcev1.OCIRepositoryKind
}

func (r *Release) sourceObject() any {
	kind := metav1.TypeMeta{APIVersion: fluxobj.SourceVersion, Kind: r.sourceKind()}
	in := r.meta(r.workInfo().sourceKey.Namespace)
	interval := r.reconcileInterval()
	var secret *meta.LocalObjectReference
	if r.Chart.SecretRef != nil {
		secret = nameOf(r.Chart.SecretRef.Name)
	}
	switch {
	case r.Chart.Helm != nil:
		return &sourcev1.HelmRepository{TypeMeta: kind, ObjectMeta: in, Spec: sourcev1.HelmRepositorySpec{URL: r.Chart.Helm.URL, Interval: interval, SecretRef: secret}}
	case r.Chart.Git != nil:
		g := r.Chart.Git
		return &sourcev1.GitRepository{TypeMeta: kind, ObjectMeta: in, Spec: sourcev1.GitRepositorySpec{
			URL: g.URL, Interval: interval, Reference: &sourcev1.GitRepositoryRef{Branch: g.Branch, Tag: g.Tag, SemVer: g.Semver, Commit: g.Commit}, SecretRef: secret,
		}}
	}
	o := r.Chart.OCI
	if o.Digest != "" {
		interval.Duration = 24 * time.Hour // a digest never changes
	}
	return &sourcev1.OCIRepository{TypeMeta: kind, ObjectMeta: in, Spec: sourcev1.OCIRepositorySpec{
		URL:           o.URL,
		Reference:     &sourcev1.OCIRepositoryRef{Digest: o.Digest, SemVer: o.Version},
		LayerSelector: &sourcev1.OCILayerSelector{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Operation: sourcev1.OCILayerCopy},
		Interval:      interval,
		SecretRef:     secret,
		Insecure:      r.PlainHTTP,
	}}
}

func (r *Release) reconcileInterval() metav1.Duration {
	return metav1.Duration{Duration: cmp.Or(r.Interval.Duration, 10*time.Minute)}
}

func (r *Release) release() *helmv2.HelmRelease {
	spec := helmv2.HelmReleaseSpec{
		Interval:           r.reconcileInterval(),
		Suspend:            r.Suspend,
		ServiceAccountName: r.ServiceAccountName,
		ReleaseName:        r.Name,
		TargetNamespace:    r.Namespace,
		StorageNamespace:   r.Namespace,
		Install:            &helmv2.Install{Remediation: &helmv2.InstallRemediation{Retries: tries}},
		Upgrade:            &helmv2.Upgrade{Remediation: &helmv2.UpgradeRemediation{Retries: tries}},
		DriftDetection:     &helmv2.DriftDetection{Mode: driftMode(r.Drift)},
		Values:             &apiextensions.JSON{Raw: r.Values},
	}
	if r.Values == nil {
		spec.Values.Raw = []byte("{}")
	}
	if r.Timeout.Duration > 0 {
		spec.Timeout = &r.Timeout
	}
	ref := helmv2.CrossNamespaceObjectReference{Kind: r.sourceKind(), Name: r.Name, Namespace: r.ChartNamespace}
	switch {
	case r.Chart.OCI != nil:
		spec.ChartRef = &helmv2.CrossNamespaceSourceReference{Kind: ref.Kind, Name: ref.Name, Namespace: ref.Namespace}
	case r.Chart.Helm != nil:
		spec.Chart = r.chart(helmv2.HelmChartTemplateSpec{Chart: r.Chart.Helm.Name, Version: r.Chart.Helm.Version, SourceRef: ref})
	case r.Chart.Git != nil:
		spec.Chart = r.chart(helmv2.HelmChartTemplateSpec{Chart: "./" + r.Chart.Git.Path, SourceRef: ref, ReconcileStrategy: sourcev1.ReconcileStrategyRevision})
	}
	for _, from := range r.ValuesFrom {
		spec.ValuesFrom = append(spec.ValuesFrom, helmv2.ValuesReference{Kind: "Secret", Name: from.Secret, ValuesKey: from.Key})
	}
	o := &helmv2.HelmRelease{TypeMeta: metav1.TypeMeta{APIVersion: helmv2.GroupVersion.String(), Kind: helmv2.HelmReleaseKind}, ObjectMeta: r.meta(r.Namespace), Spec: spec}
	o.Annotations = attemptAnnotation(r.Attempt)
	return o
}

// chart returns the template of helm-controller's HelmChart, with our labels.
func (r *Release) chart(spec helmv2.HelmChartTemplateSpec) *helmv2.HelmChartTemplate {
	return &helmv2.HelmChartTemplate{ObjectMeta: &helmv2.HelmChartTemplateObjectMeta{Labels: fluxobj.Labels(r.Labels, r.UID)}, Spec: spec}
}

func driftMode(d Drift) helmv2.DriftDetectionMode {
	switch d {
	case DriftReport:
		return helmv2.DriftDetectionWarn
	case DriftIgnore:
		return helmv2.DriftDetectionDisabled
	}
	return helmv2.DriftDetectionEnabled
}

// adjustMain writes out suspend, or an apply would not undo it.
func (r Release) adjustMain(_, main *unstructured.Unstructured) error {
	fluxobj.Annotate(main, annotationReset, main.GetAnnotations()[fluxobj.AnnotationRequest])
	return unstructured.SetNestedField(main.Object, r.Suspend, "spec", "suspend")
}

func (r Release) stoppedSpec(*unstructured.Unstructured) map[string]any {
	return map[string]any{"suspend": true}
}

// endingSpec requires the account until all is gone (H2), and suspends if resources stay (H3).
func (r Release) endingSpec(ctx context.Context, c fluxobj.Client, live, _, _ *unstructured.Unstructured) (map[string]any, error) {
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

// removeRest removes the HelmChart of a release that was kept (H4).
func (r Release) removeRest(ctx context.Context, c fluxobj.Client) (gone bool, err error) {
	if r.Chart.OCI != nil {
		return true, nil
	}
	return c.Clean(ctx, fluxobj.SourceVersion, sourcev1.HelmChartKind, client.ObjectKey{Namespace: r.workInfo().sourceKey.Namespace, Name: r.Namespace + "-" + r.Name})
}

// observe reports chart versions as the revisions.
func (r Release) observe(live *unstructured.Unstructured) Status {
	conditions := fluxobj.Conditions(live)
	ready := conditions["Ready"]
	status := statusOf(live, ready)
	status.Failures = fluxobj.Number(live, "status", "failures")
	status.PlannedRevision = fluxobj.Text(live, "status", "lastAttemptedRevision")
	status.AppliedRevision = installedVersion(live)
	switch {
	case live.GetDeletionTimestamp() != nil:
		status.Phase = Destroying
	case fluxobj.Suspended(live):
		status.Phase = Suspended
	case !fluxobj.Observed(live) || status.Attempt != r.Attempt:
	case ready.True() && r.isPinned(live):
		status.Phase = Applied
		if r.Drift == DriftReport && conditions["Drifted"].True() {
			status.Phase = Drifted
			status.Message = conditions["Drifted"].Message
		}
	case ready.False() && conditions["Stalled"].True():
		status.Phase = Failed
	}
	return status.withFailure(live, ready)
}

// isPinned reports whether the release has the digest or the commit that it names, if any.
// The version of a chart from Git contains the first digits of its commit.
func (r *Release) isPinned(live *unstructured.Unstructured) bool {
	switch {
	case r.Chart.OCI != nil && r.Chart.OCI.Digest != "":
		return strings.HasSuffix(fluxobj.Text(live, "status", "lastAttemptedRevisionDigest"), r.Chart.OCI.Digest)
	case r.Chart.Git != nil && r.Chart.Git.Commit != "":
		return strings.Contains(fluxobj.Text(live, "status", "lastAttemptedRevision"), "+"+r.Chart.Git.Commit[:shortest])
	}
	return true
}

// installedVersion returns the version of the chart that was installed last.
func installedVersion(live *unstructured.Unstructured) string {
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

// Resolve has source-controller look up a Release's chart, by Namespace, Name, UID, Labels and
// Chart, and returns its version. The lookup's objects go with their owner.
func (e *Executor) Resolve(ctx context.Context, r Release, owner metav1.OwnerReference) (Found, error) {
	if err := r.checkChart(); err != nil {
		return Found{}, err
	}
	objects := []any{r.sourceObject()}
	if r.Chart.Helm != nil {
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
		if err := checkFetched(live); err != nil {
			return Found{}, err
		}
	}
	return foundChart(r.Chart, live), nil
}

// Unlook deletes the objects that [Executor.Resolve] created for a chart of another kind.
func (e *Executor) Unlook(ctx context.Context, r Release) error {
	for _, kind := range []string{sourcev1.OCIRepositoryKind, sourcev1.HelmRepositoryKind, sourcev1.GitRepositoryKind, sourcev1.HelmChartKind} {
		if kind == r.sourceKind() || kind == sourcev1.HelmChartKind && r.Chart.Helm != nil {
			continue
		}
		if _, err := (fluxobj.Client{Client: e.Client, UID: r.UID}).Clean(ctx, fluxobj.SourceVersion, kind, r.workInfo().key); err != nil {
			return err
		}
	}
	return nil
}

// lookup returns the HelmChart that finds a version in the index of a repository.
func (r *Release) lookup() *sourcev1.HelmChart {
	return &sourcev1.HelmChart{
		TypeMeta: metav1.TypeMeta{APIVersion: fluxobj.SourceVersion, Kind: sourcev1.HelmChartKind}, ObjectMeta: r.meta(r.Namespace),
		Spec: sourcev1.HelmChartSpec{
			Chart: r.Chart.Helm.Name, Version: r.Chart.Helm.Version, Interval: r.reconcileInterval(),
			SourceRef: sourcev1.LocalHelmChartSourceReference{Kind: sourcev1.HelmRepositoryKind, Name: r.Name},
		},
	}
}

// checkFetched returns nil if source-controller has fetched what the object describes. While a
// fetch fails, only the condition has the observed generation.
func checkFetched(o *unstructured.Unstructured) error {
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

// foundChart reads the version of a fetched chart.
func foundChart(c v1alpha1.Chart, o *unstructured.Unstructured) Found {
	revision := fluxobj.Text(o, "status", "artifact", "revision")
	if c.Helm != nil {
		return Found{revision, fluxobj.Text(o, "status", "artifact", "digest")}
	}
	f := Found{Digest: revision} // NAME@ALGORITHM:HEX or ALGORITHM:HEX
	if i := strings.LastIndex(revision, "@"); i >= 0 {
		f.Version = revision[:i]
		f.Digest = revision[i+1:]
	}
	if named := c.OCI != nil || c.Git.Tag != "" || c.Git.Semver != ""; !named || f.Version == "" {
		f.Version = shortHex(f.Digest)
	}
	return f
}

// shortest is the number of digits that abbreviate a digest or a commit.
const shortest = 12

func shortHex(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(len(hex), shortest)]
}
