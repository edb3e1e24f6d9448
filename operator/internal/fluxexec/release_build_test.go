// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

var sources = []string{"oci", "http", "git"}

// TestReleaseBuild compares releases with golden files.
func TestReleaseBuild(t *testing.T) {
	for _, name := range sources {
		objects := must.Get(fluxexec.Build(release(t, name)))(t)
		var got bytes.Buffer
		for _, o := range objects {
			b := must.Get(yaml.Marshal(o))(t)
			got.WriteString("---\n")
			got.Write(b)
		}
		golden := filepath.Join("testdata", "release", name+".golden")
		if os.Getenv("OKARA_UPDATE") != "" {
			must.Succeed(t, os.WriteFile(golden, got.Bytes(), 0o644))
		}
		if want := must.Get(os.ReadFile(golden))(t); !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s became\n%s", name, got.Bytes())
		}
	}
}

// TestReleaseRefuses checks that the error names the field of each mistake.
func TestReleaseRefuses(t *testing.T) {
	for _, c := range []struct{ field, change string }{
		{"name", "name: a.b"},
		{"namespace", "namespace: A"},
		{"serviceAccountName", "serviceAccountName: ''"},
		{"drift", "drift: Never"},
		{"values", "values: [a]"},
		{"chart", "chart: {}"},
		{"chart.oci.url", "chart: {oci: {url: 'oci://u:p@r.example.com/a', version: 1.x}}"},
		{"chart.helm.url", "chart: {helm: {url: 'file:///a', name: a}}"},
		{"chart.helm.url", "chart: {helm: {url: 'https://a:b@c.example.com', name: a}}"},
		{"chart.helm.name", "chart: {helm: {url: 'https://a.example.com', name: ../a}}"},
		{"chart.git.url", "chart: {git: {url: 'ext::sh', path: a}}"},
		{"chart.git.url", "chart: {git: {url: 'https://token@a.example.com', path: a}}"},
		{"chart.git.path", "chart: {git: {url: 'https://a.example.com', path: ../a}}"},
	} {
		s := release(t, "git")
		if bytes.HasPrefix([]byte(c.change), []byte("chart:")) {
			s.Chart = v1alpha1.Chart{}
		}
		must.Succeed(t, yaml.UnmarshalStrict([]byte(c.change), &s))
		_, err := fluxexec.Build(s)
		if e, ok := errors.AsType[*fluxexec.FieldError](err); !ok || e.Field != c.field {
			t.Errorf("%s: %v, want an error of %s", c.change, err, c.field)
		}
	}
}

func release(t *testing.T, name string) fluxexec.Release {
	t.Helper()
	src := must.Get(os.ReadFile(filepath.Join("testdata", "release", name+".yaml")))(t)
	var s fluxexec.Release
	must.Succeed(t, yaml.UnmarshalStrict(src, &s))
	return s
}
