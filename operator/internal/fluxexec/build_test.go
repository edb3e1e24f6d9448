// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// TestBuild compares the objects of runs with golden files, which OKARA_UPDATE writes.
//
// Shows: operator 33 | a run of a module becomes objects of Flux, the same each time; errors name
// their field
// Shows: traps T5
// Shows: traps T12
func TestBuild(t *testing.T) {
	for _, name := range []string{"small", "whole", "off", "compare"} {
		objects := must.Get(fluxexec.Build(run(t, name)))(t)
		var got bytes.Buffer
		for _, o := range objects {
			b := must.Get(yaml.Marshal(o))(t)
			got.WriteString("---\n")
			got.Write(b)
		}
		golden := filepath.Join("testdata", name+".golden")
		if os.Getenv("OKARA_UPDATE") != "" {
			must.Succeed(t, os.WriteFile(golden, got.Bytes(), 0o644))
		}
		if want := must.Get(os.ReadFile(golden))(t); !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s became\n%s", name, got.Bytes())
		}
	}
}

// TestBuildRefuses checks that the error names the field of each mistake.
//
// Shows: operator 33
func TestBuildRefuses(t *testing.T) {
	const sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, c := range []struct{ field, change string }{
		{"name", "name: vpc.prod"},
		{"name", "name: 1vpc"},
		{"name", "name: " + strings.Repeat("a", 54)},
		{"namespace", "namespace: Team"},
		{"namespace", "namespace: ''"},
		{"module.repository", "module: {repository: 'https://r.example.com/x', digest: '" + sum + "'}"},
		{"module.repository", "module: {repository: 'r.example.com/x:1.0.0', digest: '" + sum + "'}"},
		{"module.repository", "module: {repository: 'r.example.com', digest: '" + sum + "'}"},
		{"module.repository", "module: {repository: 'u:p@r.example.com/x', digest: '" + sum + "'}"},
		{"module.digest", "module: {repository: r.example.com/x, digest: 1.4.0}"},
		{"module.digest", "module: {repository: r.example.com/x, digest: ''}"},
		{"module.size", "module: {repository: r.example.com/x, digest: '" + sum + "', size: 4823450}"},
		{"module.path", "module: {repository: r.example.com/x, digest: '" + sum + "', path: ../x}"},
		{"module.path", "module: {repository: r.example.com/x, digest: '" + sum + "', path: /x}"},
		{"module.path", "module: {repository: r.example.com/x, digest: '" + sum + "', path: ..}"},
		{"module.pullSecret", "module: {repository: r.example.com/x, digest: '" + sum + "', pullSecret: a/b}"},
		{"state.address", "state: {address: okara.example.com/state/a/b}"},
		{"state.address", "state: {address: 'https://okara.example.com/other/a'}"},
		{"state.address", "state: {address: 'https://t@okara.example.com/state/a/b'}"},
		{"state.address", "state: {address: 'https://okara.example.com/state/a/b?x'}"},
		{"state.address", "state: {address: 'https://okara.example.com/state/a\"'}"},
		{"state.address", "state: {address: 'https://okara.example.com/state/${a}'}"},
		{"state.address", "state: {address: 'https://okara.example.com/state/a%{b}'}"},
		{"state.ca", "state: {address: 'https://okara.example.com/state/a/b', ca: {configMap: ca}}"},
		{"state.tokenSecret", "state: {address: 'https://okara.example.com/state/a/b', tokenSecret: A}"},
		{"variables", "variables: {'a b': 1}"},
		{"variablesFrom[0]", "variablesFrom: [{secret: a}]"},
		{"variablesFrom[0].keys", "variablesFrom: [{secret: a, keys: {'a:b': c}}]"},
		{"variablesFrom[0].keys", "variablesFrom: [{secret: a, keys: {a: 'b:c'}}]"},
		{"variablesFrom[0].secret", "variablesFrom: [{secret: a b, keys: {a: b}}]"},
		{"serviceAccountName", "serviceAccountName: a b"},
		{"cliConfigSecret", "cliConfigSecret: A"},
		{"outputs", "outputs: [a]"},
		{"drift", "drift: Never"},
		{"drift", "{approval: None, drift: Ignore}"},
		{"approval", "approval: Always"},
		{"gate", "gate: okara-operator"},
		{"gate", "gate: 'https://a@b/plan'"},
		{"healthChecks[0]", "healthChecks: [{name: a, type: http, address: b}]"},
		{"healthChecks[0]", "healthChecks: [{name: a, type: grpc, url: b}]"},
		{"encryption", "encryption: {secret: a}"},
		{"encryption.secret", "encryption: {secret: A, key: b}"},
		{"variablesFrom[0]", "variablesFrom: [{secret: a, configMap: b, keys: {a: b}}]"},
		{"variablesFrom[0].configMap", "variablesFrom: [{configMap: a b, keys: {a: b}}]"},
		{"runner.env[0].name", "runner: {env: [{name: 'a=b', value: c}]}"},
		{"runner.env[0].name", "runner: {env: [{name: TF_HTTP_PASSWORD, value: c}]}"},
		{"runner.env[0].name", "runner: {env: [{name: TF_LOG, value: debug}]}"},
		{"module.provider", "module: {repository: r.example.com/x, digest: '" + sum + "', provider: oracle}"},
		{"module.verify.secret", "module: {repository: r.example.com/x, digest: '" + sum + "', verify: {secret: A}}"},
		{"retryInterval, lockTimeout", "lockTimeout: -1m"},
		{"interval, retries", "interval: -1m"},
		{"interval, retries", "retries: -1"},
	} {
		s := run(t, "small")
		must.Succeed(t, yaml.UnmarshalStrict([]byte(c.change), &s))
		_, err := fluxexec.Build(s)
		if e, ok := errors.AsType[*fluxexec.FieldError](err); !ok || e.Field != c.field {
			t.Errorf("%s: %v, want an error of %s", c.change, err, c.field)
		}
	}
}

func run(t *testing.T, name string) fluxexec.Spec {
	t.Helper()
	src := must.Get(os.ReadFile(filepath.Join("testdata", name+".yaml")))(t)
	var s fluxexec.Spec
	must.Succeed(t, yaml.UnmarshalStrict(src, &s))
	return s
}
