// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

const (
	renderFirst  = "namespace: a\nname: one\nmodule: {repository: r.example.com/x, digest: 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}\nstate: {address: 'https://okara.example.com/state/a/one'}\n"
	renderSecond = "---\nnamespace: b\nname: two\nmodule: {repository: r.example.com/y, digest: 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}\nstate: {address: 'https://okara.example.com/state/a/two'}\n"
)

// TestRender prints the objects of each run in a file, or none if one run is invalid.
//
// Shows: operator 33
func TestRender(t *testing.T) {
	for _, c := range []struct {
		content, want string
		code          int
	}{
		{renderFirst + renderSecond, "", exitOK},
		{renderFirst + strings.Replace(renderSecond, "name: two", "name: two.x", 1), `document 2: name: "two.x" must be a DNS label`, exitFailure},
		{renderFirst + "nmae: x\n", `document 1: error unmarshaling JSON: while decoding JSON: json: unknown field "nmae"`, exitFailure},
		{strings.Repeat("#", maxRuns+1), "is larger than 4 MiB", exitFailure},
	} {
		file := filepath.Join(t.TempDir(), "runs.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(c.content), 0o600))
		code, out, errOut := command(t, "render", file)
		if code != c.code || !strings.Contains(errOut, c.want) || (code == exitOK) != (strings.Count(out, "\n  name: ") == 4) || code != exitOK && out != "" {
			t.Errorf("%.60q: %d, %s%s", c.content, code, out, errOut)
		}
	}
	for _, args := range [][]string{{"render"}, {"render", "a", "b"}, {"render", "--module"}, {"render", filepath.Join(t.TempDir(), "none")}} {
		if code, out, errOut := command(t, args...); code == exitOK || out != "" || errOut == "" {
			t.Errorf("%q: %d, %s%s", args, code, out, errOut)
		}
	}
}

// kindArgs returns a command line that renders a kind and an object of it.
func kindArgs(more ...string) []string {
	return append([]string{"render", "testdata/vpcs.yaml", "testdata/prod.yaml", "--module", "../../internal/kindspec/testdata/vpc"}, more...)
}

func siteArgs() []string {
	return []string{
		"--version", "1.4.0@sha256:14f2e7e1314ddc4b1b1e1bcb4b8c9f80ce4b5a3a2b7aa1f3c6a9b1d9f7a55d2b",
		"--registry", "registry.example.com/platform", "--serve", "https://okara.example.com", "--cluster", "prod",
	}
}

// TestRenderKind compares the objects for a kind and an object of it with a golden file,
// which OKARA_UPDATE writes. The tests of kindspec cover the CRD itself.
//
// Shows: operator 35 | the objects created for a kind, an object of it and an Instance are shown
// without a cluster, and no value of a Secret; errors name their field
func TestRenderKind(t *testing.T) {
	code, out, errOut := command(t, kindArgs(siteArgs()...)...)
	crd, rest, _ := strings.Cut(out, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n")
	if code != exitOK || errOut != "" || !strings.Contains(crd, "name: vpcs.apps.okara.dev") {
		t.Fatalf("%d, %s%.400s", code, errOut, out)
	}
	golden(t, "kind", rest)

	code, out, errOut = command(t, kindArgs(append(siteArgs(), "--json")...)...)
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK || list.Kind != "List" || len(list.Items) != strings.Count(rest, "\n---\n")+2 {
		t.Errorf("%d, %s: %v: a %s of %d objects", code, errOut, err, list.Kind, len(list.Items))
	}
}

// TestRenderInstance compares the objects for an Instance with a golden file.
//
// Shows: operator 35
func TestRenderInstance(t *testing.T) {
	args := append([]string{"render", "testdata/instance.yaml", "--module", "../../internal/kindspec/testdata/vpc"}, siteArgs()...)
	code, out, errOut := command(t, args...)
	if code != exitOK || errOut != "" {
		t.Fatalf("%d, %s", code, errOut)
	}
	golden(t, "instance", out)
	text := must.Get(os.ReadFile("testdata/instance.yaml"))(t)
	for _, c := range []struct{ change, to, want string }{
		{"template: sandbox/vpc", "template: sandbox/other", "template \"sandbox/other\" not found in the documents"},
		{"name: cidr", "name: other", "parameter other"},
		{"region-${id}", "region-${nothing}", "nothing"},
		{"address: net/vpc/aws", "address: vpc", "vpc"},
	} {
		args[1] = filepath.Join(t.TempDir(), "instance.yaml")
		must.Succeed(t, os.WriteFile(args[1], []byte(strings.Replace(string(text), c.change, c.to, 1)), 0o600))
		if code, out, errOut := command(t, args...); code != exitFailure || out != "" || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, "hint: ") {
			t.Errorf("%s: %d, %s%s", c.to, code, out, errOut)
		}
	}
}

// golden compares a text with a file; OKARA_UPDATE writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	must.Equal(t, "it became", got, string(want))
}

// TestRenderKindRefuses checks that each mistake is reported with a hint, and nothing is
// printed.
//
// Shows: operator 35
func TestRenderKindRefuses(t *testing.T) {
	without := func(flag string) []string {
		args := siteArgs()
		i := slices.Index(args, flag)
		return slices.Delete(args, i, i+2)
	}
	written := func(change, to string) []string {
		text := must.Get(os.ReadFile("testdata/prod.yaml"))(t)
		file := filepath.Join(t.TempDir(), "object.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(string(text), change, to, 1)), 0o600))
		args := kindArgs(siteArgs()...)
		args[2] = file
		return args
	}
	defined := func(line string) []string {
		text := must.Get(os.ReadFile("testdata/vpcs.yaml"))(t)
		file := filepath.Join(t.TempDir(), "kind.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(string(text), "spec:\n", "spec:\n"+line+"\n", 1)), 0o600))
		return []string{"render", file, "--module", "../../internal/kindspec/testdata/vpc"}
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{defined("  upgrades: {policy: Manual}"), "spec.upgrades: Invalid value: \"\": unknown field", exitFailure},
		{defined("  upgrade: {policy: Never}"), "spec.upgrade.policy: Unsupported value: \"Never\"", exitFailure},
		{kindArgs(without("--registry")...), "requires --registry", exitUsage},
		{kindArgs(without("--serve")...), "requires --serve", exitUsage},
		{kindArgs(without("--cluster")...), "requires --cluster", exitUsage},
		{kindArgs(without("--version")...), "hint: specify it with --version", exitFailure},
		{append(siteArgs(), "render", "testdata/vpcs.yaml"), "hint: specify the folder with its files with --module", exitFailure},
		{append(siteArgs(), "render", "testdata/prod.yaml"), "no ModuleKind defines VPC", exitFailure},
		{append(siteArgs(), "render", "testdata/vpcs.yaml", "testdata/vpcs.yaml", "--module", "../../internal/kindspec/testdata/vpc"), "defined twice", exitFailure},
		{[]string{"render", os.DevNull}, os.DevNull + " contains no document", exitFailure},
		{append(kindArgs(), "--version", "1.4.0"), "is not VERSION@DIGEST", exitUsage},
		{append(kindArgs(), "--serve", "okara"), "is not https://", exitUsage},
		{append(kindArgs(), "--registry", "https://r"), "r", exitUsage},
		{append(kindArgs(), "--cluster", "A"), "is not a valid cluster name", exitUsage},
		{append(kindArgs(siteArgs()...), "--module", t.TempDir()), "modules/vpc", exitFailure},
		{written("10.10.0.0/16", "[1]"), "spec.cidr", exitFailure},
		{written("region:", "regoin:"), "spec.regoin", exitFailure},
		{written("region: eu-central-1", ""), "spec.region", exitFailure},
		{written(", namespace: tenant-acme", ""), "metadata.namespace", exitFailure},
		{written("name: prod", "name: Prod"), "a name begins with a letter", exitFailure},
		{written("apps.okara.dev/v1alpha1", "apps/v1"), "cannot render apps/v1", exitFailure},
	} {
		code, out, errOut := command(t, c.args...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, "hint: ") {
			t.Errorf("%q: %d, want %d and %q: %.200s%s", c.args, code, c.code, c.want, out, errOut)
		}
	}
}

// TestRenderPage renders the examples of docs/kubernetes/kubernetes-render.md with the
// module of docs/kubernetes/kinds.md, and the first Template and Instance of
// docs/kubernetes/portal-kubernetes.md.
func TestRenderPage(t *testing.T) {
	dir := t.TempDir()
	blocks := func(page, language string) (all []string) {
		t.Helper()
		src := must.Get(os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", page)))(t)
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"[^\n]*\n(.*?)^```").FindAllStringSubmatch(string(src), -1) {
			all = append(all, m[1])
		}
		return all
	}
	write := func(name, content string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	module := filepath.Dir(write("vpc/main.tf", blocks("kinds.md", "hcl")[0]))
	kind := write("kind.yaml", strings.Join(blocks("kubernetes-render.md", "yaml"), "---\n"))
	var instance string
	for _, block := range blocks("portal-kubernetes.md", "yaml") {
		if strings.Contains(block, "name: sandbox.vpc,") || strings.Contains(block, "kind: Instance") && instance != "" && !strings.Contains(instance, "kind: Instance") {
			instance += "---\n" + block
		}
	}
	for _, file := range []string{kind, write("instance.yaml", instance)} {
		code, out, errOut := command(t, append([]string{"render", file, "--module", module}, siteArgs()...)...)
		if code != exitOK || errOut != "" || !strings.Contains(out, "kind: Terraform") {
			t.Errorf("%s: %d, %s%s", filepath.Base(file), code, out, errOut)
		}
	}
}
