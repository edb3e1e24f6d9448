// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/portalserve"
)

// TestChartFlags starts the operator and the portal with the flags and files of the
// Kubernetes chart, from its golden files. Only a missing cluster may make them fail.
//
// Shows: operator 17
func TestChartFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for name, want := range map[string]int{"few": 1, "many": 2, "scoped": 1} {
		src := must.Get(os.ReadFile(filepath.Join("..", "..", "internal", "chart", "testdata", name+".yaml")))(t)
		objects := must.Get(chart.Parse(string(src)))(t)
		dir, files, started := t.TempDir(), map[string]string{}, 0
		for _, o := range objects {
			// A dashboard is Grafana's, and no program of okara reads it.
			if o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), "okara-") && o.GetName() != "okara-dashboard" {
				var m corev1.ConfigMap
				must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m))
				for file, text := range m.Data {
					files[file] = filepath.Join(dir, file)
					must.Succeed(t, os.WriteFile(files[file], []byte(text), 0o600))
				}
			}
		}
		for file, path := range files {
			if filepath.Ext(file) != ".hcl" {
				continue // as the rules of --run-egress, which the command below reads
			}
			settings, err := portalserve.Read(path)
			if err == nil {
				_, err = settings.Instance()
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
		for _, o := range objects {
			if o.GetKind() != "Deployment" || o.GetName() == "okara" {
				continue
			}
			var d appsv1.Deployment
			must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
			started++
			args := d.Spec.Template.Spec.Containers[0].Args
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "/etc/okara/config", dir)
			}
			code, out, errOut := command(t, append(args, "--kubeconfig=/dev/null")...)
			if code != exitFailure || !strings.Contains(errOut, "no usable cluster configuration") {
				t.Errorf("%s: %s %q: %d, %s%s", name, o.GetName(), args, code, out, errOut)
			}
		}
		must.Equal(t, name+": started", started, want)
	}
}
