// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// Flux's objects for a chart. %s: namespace, repository, digest; namespace.
const (
	chartSource = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {namespace: %s, name: hello}
spec:
  url: oci://%s
  ref: {digest: %q}
  layerSelector: {mediaType: application/vnd.cncf.helm.chart.content.v1.tar+gzip, operation: copy}
  interval: 24h
  insecure: true
`
	release = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {namespace: %[1]s, name: hello}
spec:
  interval: 10m
  chartRef: {kind: OCIRepository, name: hello}
  serviceAccountName: runner
  releaseName: hello
  targetNamespace: %[1]s
  storageNamespace: %[1]s
  values: {text: hello}
`
)

const template = `
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {text: "{{ .Values.text }}"}
`

// TestFluxInstallsAChart installs a chart from okara's registry, with an account that may
// edit its namespace, and uninstalls it.
//
// Shows: rig 2 | helm-controller installs a chart from okara's registry, and uninstalls it while
// its account exists
func TestFluxInstallsAChart(t *testing.T) {
	f := newFlux(t, Manager, Source, Helm)
	ns := cluster.Namespace(t, nil).Name
	account := metav1.ObjectMeta{Namespace: ns, Name: "runner"}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account}, // without it nothing is uninstalled, and the release is removed
		&rbacv1.RoleBinding{
			ObjectMeta: account,
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account.Name}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		},
	} {
		must.Succeed(t, f.Create(t.Context(), o))
	}
	_, c := depottest.NewDepot(t, serve(t), oci.Options{})
	repo := depottest.MustRepo(t, c, "charts/hello")
	pushed := must.Get(repo.Push(t.Context(), chart(t)))(t)
	repository := f.create(t, object(t, fmt.Sprintf(chartSource, ns, repo, pushed.Digest.String())))
	installed := f.create(t, object(t, fmt.Sprintf(release, ns)))
	f.ready(t, installed)
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hello"}}
	f.read(t, made)
	must.Equal(t, "the chart made", made.Data["text"], "hello")
	f.delete(t, installed)
	f.gone(t, installed)
	f.gone(t, made)
	f.delete(t, repository)
	f.gone(t, repository)
}

// chart returns a chart as `helm push` stores it.
func chart(t *testing.T) oci.Artifact {
	t.Helper()
	files := chartFiles("1.0.0")
	about := oci.BytesBlob("application/vnd.cncf.helm.config.v1+json", files["Chart.yaml"].Data)
	layer := oci.BytesBlob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", pack(t, files))
	m := must.Get(oci.NewManifest(ocispec.Manifest{Config: about.Descriptor, Layers: []oci.Descriptor{layer.Descriptor}}))(t)
	return oci.Artifact{Blobs: []oci.Blob{about, layer}, Root: m}
}

func chartFiles(version string) fstest.MapFS {
	return fstest.MapFS{
		"Chart.yaml":           {Data: fmt.Appendf(nil, `{"apiVersion":"v2","name":"hello","version":%q}`, version)},
		"templates/hello.yaml": {Data: []byte(template)},
	}
}

// pack creates the archive of a chart as `helm package` does.
func pack(t *testing.T, files fstest.MapFS) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must.Succeed(t, w.WriteHeader(&tar.Header{Name: "hello/" + name, Mode: 0o644, Size: int64(len(files[name].Data))}))
		must.Get(w.Write(files[name].Data))(t)
	}
	for _, c := range []io.Closer{w, z} {
		must.Succeed(t, c.Close())
	}
	return b.Bytes()
}
