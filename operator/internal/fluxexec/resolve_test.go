// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

const (
	someSum    = "sha256:14f2e7e131000000000000000000000000000000000000000000000000000000"
	someCommit = "sha1:0123456789abcdef0123456789abcdef01234567"
)

// lookup is the owner of a chart lookup: a ConfigMap in place of a Template.
type lookup struct {
	t     *testing.T
	c     client.Client
	exec  fluxexec.Executor
	spec  fluxexec.Release
	owner metav1.OwnerReference
}

func newLookup(t *testing.T) *lookup {
	t.Helper()
	config := cluster.Admin(t)
	rig.InstallFlux(t, config)
	c := must.Get(client.New(config, client.Options{}))(t)
	of := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t, nil).Name, Name: "lab.web"}}
	must.Succeed(t, c.Create(t.Context(), of))
	return &lookup{
		t: t, c: c, exec: fluxexec.Executor{Client: client.WithFieldValidation(c, metav1.FieldValidationStrict)},
		spec:  fluxexec.Release{Namespace: of.Namespace, Name: of.Name, UID: of.UID},
		owner: *metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}
}

func (l *lookup) live(kind string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	o.SetKind(kind)
	return o, l.c.Get(l.t.Context(), client.ObjectKey{Namespace: l.spec.Namespace, Name: l.spec.Name}, o)
}

// says writes a status as source-controller does.
func (l *lookup) says(kind, ready, revision string) {
	l.t.Helper()
	o := must.Get(l.live(kind))(l.t)
	if len(o.GetOwnerReferences()) != 1 {
		l.t.Errorf("%s has no owner", kind)
	}
	status := map[string]any{"observedGeneration": o.GetGeneration(), "conditions": []any{map[string]any{
		"type": "Ready", "status": ready, "reason": "Test", "message": "it says so", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	if revision != "" {
		status["artifact"] = map[string]any{
			"revision": revision, "digest": someSum, "path": "a", "url": "http://a.example.com/a", "lastUpdateTime": "2026-01-01T00:00:00Z",
		}
	}
	o.Object["status"] = status
	must.Succeed(l.t, l.c.Status().Update(l.t.Context(), o))
}

func (l *lookup) pending() {
	l.t.Helper()
	_, err := l.exec.Resolve(l.t.Context(), l.spec, l.owner)
	if _, ok := errors.AsType[*fluxexec.PendingError](err); !ok {
		l.t.Fatalf("before source-controller looked: %v", err)
	}
}

// TestResolve checks the resolved version of a chart for each kind of source.
//
// Shows: operator 22 | a chart from a registry, an index or a Git repository is pinned by its
// digest, version or commit; its instance is installed, compared, updated, uninstalled or kept
func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		chart    v1alpha1.Chart
		kinds    []string
		revision string
		want     fluxexec.Found
	}{
		"a range": {
			v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://r.example.com/web", Version: "1.x"}}, []string{"OCIRepository"}, "1.2.0@" + someSum, fluxexec.Found{Version: "1.2.0", Digest: someSum},
		},
		"a digest": {
			v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://r.example.com/web", Digest: someSum}}, []string{"OCIRepository"}, someSum, fluxexec.Found{Version: "14f2e7e13100", Digest: someSum},
		},
		"a repository": {
			v1alpha1.Chart{Helm: &v1alpha1.ChartHelm{URL: "https://r.example.com", Name: "web", Version: "1.x"}}, []string{"HelmRepository", "HelmChart"}, "1.2.0", fluxexec.Found{Version: "1.2.0", Digest: someSum},
		},
		"a branch": {
			v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://g.example.com/web", Branch: "main"}}, []string{"GitRepository"}, "main@" + someCommit, fluxexec.Found{Version: "0123456789ab", Digest: someCommit},
		},
		"a tag": {
			v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://g.example.com/web", Tag: "v1"}}, []string{"GitRepository"}, "v1@" + someCommit, fluxexec.Found{Version: "v1", Digest: someCommit},
		},
		"a commit": {
			v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://g.example.com/web", Commit: someCommit[5:]}}, []string{"GitRepository"}, someCommit, fluxexec.Found{Version: "0123456789ab", Digest: someCommit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLookup(t)
			l.spec.Chart = c.chart
			for _, kind := range c.kinds {
				l.pending()
				l.says(kind, "False", "")
				if _, err := l.exec.Resolve(t.Context(), l.spec, l.owner); err == nil || !strings.Contains(err.Error(), kind+" lab.web: it says so") {
					t.Fatal(err)
				}
				l.says(kind, "True", c.revision)
			}
			if got, err := l.exec.Resolve(t.Context(), l.spec, l.owner); err != nil || got != c.want {
				t.Errorf("%+v %v, want %+v", got, err, c.want)
			}
		})
	}
}

// TestUnlook checks that nothing is left of a chart's previous source.
func TestUnlook(t *testing.T) {
	l := newLookup(t)
	l.spec.Chart = v1alpha1.Chart{Helm: &v1alpha1.ChartHelm{URL: "https://r.example.com", Name: "web", Version: "1.x"}}
	l.pending()
	l.says("HelmRepository", "True", "1")
	l.pending()
	l.spec.Chart = v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://g.example.com/web", Branch: "main"}}
	l.pending()
	must.Succeed(t, l.exec.Unlook(t.Context(), l.spec))
	for kind, stays := range map[string]bool{"HelmRepository": false, "HelmChart": false, "GitRepository": true} {
		if _, err := l.live(kind); (err == nil) != stays {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
