// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

const (
	releaseVersion, releaseKind = "helm.toolkit.fluxcd.io/v2", "HelmRelease"
	httpKind                    = "HelmRepository"
	gitKind                     = "GitRepository"
	chartKind                   = "HelmChart"
)

// tries is how often a failed install or upgrade is made again.
const tries = 3

// Build returns the objects of a release, in the order in which they are made. The error
// is a [*fluxexec.FieldError].
func Build(s Spec) ([]fluxexec.Object, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return []fluxexec.Object{s.source(), s.release()}, nil
}

func (s *Spec) meta(apiVersion, kind string) fluxobj.Meta {
	return fluxobj.Meta{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		Metadata: fluxobj.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: fluxobj.Labels(s.Labels, s.UID)},
	}
}

// sourceKind is that of the chart's source.
func (c Chart) sourceKind() string {
	switch {
	case c.HTTP != nil:
		return httpKind
	case c.Git != nil:
		return gitKind
	}
	return fluxobj.OCIKind
}

func (s *Spec) source() any {
	m := s.meta(fluxobj.SourceVersion, s.Chart.sourceKind())
	m.Metadata.Namespace = s.chartKey().Namespace
	interval := s.interval()
	switch {
	case s.Chart.HTTP != nil:
		h := s.Chart.HTTP
		return &httpRepository{m, httpSpec{h.URL, interval, fluxobj.Named(h.Secret), fluxobj.Named(h.CASecret)}}
	case s.Chart.Git != nil:
		g := s.Chart.Git
		ref := gitRef{g.Branch, g.Tag, g.Semver, g.Commit}
		if ref == (gitRef{}) {
			ref.Branch = "main"
		}
		return &gitRepository{m, gitSpec{g.URL, interval, ref, fluxobj.Named(g.Secret)}}
	}
	o := s.Chart.OCI
	if o.Digest != "" {
		interval.Duration = 24 * time.Hour // it never changes
	}
	return &fluxobj.OCIRepository{Meta: m, Spec: fluxobj.OCIRepositorySpec{
		URL:           "oci://" + o.Repository,
		Ref:           fluxobj.OCIRef{Digest: o.Digest, Tag: o.Tag, Semver: o.Semver},
		LayerSelector: fluxobj.Copy("application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
		Interval:      interval,
		SecretRef:     fluxobj.Named(o.PullSecret),
		CertSecretRef: fluxobj.Named(o.CASecret),
		Insecure:      o.PlainHTTP,
		Verify:        o.Verify.Object(),
		Provider:      o.Provider,
	}}
}

func (s *Spec) interval() metav1.Duration {
	if s.Interval.Duration == 0 {
		return metav1.Duration{Duration: 10 * time.Minute}
	}
	return s.Interval
}

func (s *Spec) release() *release {
	target := s.TargetNamespace
	if target == "" {
		target = s.Namespace
	}
	retry := action{Remediation: remediation{Retries: tries}}
	spec := releaseSpec{
		Interval:           s.interval(),
		Timeout:            fluxobj.Optional(s.Timeout),
		Suspend:            s.Suspend,
		ServiceAccountName: s.ServiceAccountName,
		ReleaseName:        s.Name,
		TargetNamespace:    target,
		StorageNamespace:   target,
		Install:            retry,
		Upgrade:            retry,
		DriftDetection:     driftDetection{Mode: mode(s.Drift)},
		Values:             s.Values,
		HealthChecks:       s.HealthChecks,
	}
	if spec.Values == nil {
		spec.Values = json.RawMessage("{}")
	}
	ref := sourceRef{Kind: s.Chart.sourceKind(), Name: s.Name, Namespace: s.ChartNamespace}
	switch {
	case s.Chart.OCI != nil:
		spec.ChartRef = &ref
	case s.Chart.HTTP != nil:
		spec.Chart = s.chart(chartSpec{Chart: s.Chart.HTTP.Chart, Version: s.Chart.HTTP.Version, SourceRef: ref})
	case s.Chart.Git != nil:
		spec.Chart = s.chart(chartSpec{Chart: "./" + s.Chart.Git.Path, SourceRef: ref, ReconcileStrategy: "Revision"})
	}
	for _, from := range s.ValuesFrom {
		spec.ValuesFrom = append(spec.ValuesFrom, from.object())
	}
	o := &release{Meta: s.meta(releaseVersion, releaseKind), Spec: spec}
	o.Metadata.Annotations = fluxobj.Attempt(s.Attempt)
	return o
}

// chart is what helm-controller makes a HelmChart of, with our labels.
func (s *Spec) chart(spec chartSpec) *chartTemplate {
	return &chartTemplate{Metadata: chartMeta{fluxobj.Labels(s.Labels, s.UID)}, Spec: spec}
}

func (v ValuesFrom) object() valuesFrom {
	from := valuesFrom{Kind: "Secret", Name: v.Secret, ValuesKey: v.Key, TargetPath: v.Target, Optional: v.Optional}
	if v.ConfigMap != "" {
		from.Kind, from.Name = "ConfigMap", v.ConfigMap
	}
	return from
}

func mode(d fluxexec.Drift) string {
	switch d {
	case fluxexec.DriftReport:
		return "warn"
	case fluxexec.DriftIgnore:
		return "disabled"
	}
	return "enabled"
}
