// SPDX-License-Identifier: Apache-2.0

package kindspec_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

var registry = kindspec.Registry{Host: "registry.example.com", Layout: addr.Layout{Prefix: "platform"}, Namespace: "okara-system"}

const pinned = "status: {module: {version: 1.4.0, digest: 'sha256:14f2e7e1314ddc4b1b1e1bcb4b8c9f80ce4b5a3a2b7aa1f3c6a9b1d9f7a55d2b'}}"

func mustWant(t testing.TB, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) kindrun.Wanted {
	t.Helper()
	return must.Get(registry.Wanted(def, o))(t)
}

// TestWanted compares the objects of Flux for the example, and for a definition with all
// fields set.
//
// Shows: operator 23
func TestWanted(t *testing.T) {
	where := runaccess.Where{FrontEnd: &url.URL{Scheme: "https", Host: "okara.okara-system.svc"}, Cluster: "prod", CA: true, Pull: true}
	for name, c := range map[string]struct{ def, object string }{
		"example": {"", ""},
		"whole": {`
spec:
  run:
    namespace: Dedicated
    serviceAccountName: ""
    interval: 1h
    approval: {mode: Plan}
    drift: Repair
    lockTimeout: 90s
    retries: 3
    labels: {team: net}
    runner: {image: registry.example.com/runner:1, nodeSelector: {pool: runs}, env: [{name: AWS_REGION, value: eu-central-1}]}
    varsFrom: [{secretRef: {name: forge}, keys: {peer_key: token}}]
    encryption: {secretRef: {name: passphrase}}
    healthChecks: [{name: up, url: "https://{{.vpc_id}}.example.com", timeout: 5s}, {name: port, address: "a:1", timeout: 20s}]
  values: {zones: [a, b]}
  deletion: {destroy: false}
`, `
metadata: {name: prod, namespace: tenant-acme, uid: 0a1b, labels: {env: prod, app.kubernetes.io/part-of: shop}}
spec: {cidr: 10.10.0.0/16, region: null, zones: [of the user], ports: [1, x], peer_keyFrom: {name: mine, key: k}, runOptions: {suspend: true, drift: Report}}`},
	} {
		def, o := vpc(t, c.def), object(t, pinned+"\n"+c.object)
		w := mustWant(t, def, o)
		where.Names(w.Locate(def, o)).Into(&w.Run)
		objects := must.Get(fluxexec.Build(w.Run))(t)
		golden(t, name, append([]any{map[string]any{"copies": w.Copies}}, slices.Collect(func(yield func(any) bool) {
			for _, o := range objects {
				if !yield(o) {
					return
				}
			}
		})...)...)
	}
}

// TestWantedInputs has a row for each source of an input.
//
// Shows: operator 23
func TestWantedInputs(t *testing.T) {
	def := vpc(t, `{spec: {values: {region: eu, peer_key: fixed}}}`)
	w := mustWant(t, def, object(t, pinned+"\nspec: {cidr: a, region: b, zones: null, peer_keyFrom: {name: s, key: k}, other_From: {name: s, key: k}}"))
	must.Equal(t, "the variables", mustYAML(t, w.Run.Variables), "cidr: a\npeer_key: fixed\nregion: eu\n")
	if len(w.Copies) != 1 || w.Copies[0].Name != "vpc-prod-okara-other--input" || w.Copies[0].From != (client.ObjectKey{Namespace: "tenant-acme", Name: "s"}) || w.Copies[0].Use != "input:vpcs" {
		t.Errorf("the copies are %+v", w.Copies)
	}
}

// TestWantedVersion checks that an object runs its version, and a new one the definition's.
//
// Shows: operator 23
func TestWantedVersion(t *testing.T) {
	def := vpc(t, "{spec: {module: {address: '', repository: some/where, path: ./a/b/}}}")
	if _, err := registry.Wanted(def, object(t, "")); err == nil || !strings.Contains(err.Error(), "no version") {
		t.Errorf("no version: %v", err)
	}
	def.Status.Module = &v1alpha1.ResolvedModule{Version: "1.5.0", Digest: "sha256:00"}
	if m := mustWant(t, def, object(t, "")).Run.Module; m.Version != "1.5.0" || m.Repository != "registry.example.com/some/where" || m.Path != "a/b" {
		t.Errorf("a new object runs %+v", m)
	}
	if m := mustWant(t, def, object(t, pinned)).Run.Module; m.Version != "1.4.0" || !strings.HasPrefix(m.Digest, "sha256:14f2") {
		t.Errorf("an object runs %+v", m)
	}
}

// TestOutputsAreListed checks that without a list the run writes no Secret of outputs.
//
// Shows: operator 23
func TestOutputsAreListed(t *testing.T) {
	def, o := vpc(t, ""), object(t, pinned)
	def.Spec.Outputs = v1alpha1.KindOutputs{}
	w := mustWant(t, def, o)
	w.Locate(def, o)
	must.Equal(t, "outputs are written to", w.Run.OutputsSecret, "")
	must.Succeed(t, yaml.Unmarshal([]byte(`{include: [vpc_id]}`), &def.Spec.Outputs))
	if w.Locate(def, o); w.Run.OutputsSecret != "vpc-prod-okara-raw" {
		t.Errorf("outputs are written to %q", w.Run.OutputsSecret)
	}
}
