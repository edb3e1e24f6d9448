// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

// asOperator turns the test binary into an operator that can be killed.
const asOperator = "OKARA_TEST_OPERATOR"

func TestMain(m *testing.M) {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	if os.Getenv(asOperator) != "" {
		os.Exit(mainCode())
	}
	os.Exit(rig.Main(m, &cluster))
}

// command runs one command line that ends on its own.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = executeCommand(t.Context(), args, &o, &e)
	return code, o.String(), e.String()
}

// kinds guards the installation of okara's kinds in the test cluster.
var kinds sync.Once

// install installs the kinds, after a look at what is said without.
func install(t *testing.T, admin *rest.Config) {
	t.Helper()
	kinds.Do(func() {
		code, _, errOut := command(t, "run", "--kubeconfig", writeConfig(t, admin), "--namespace", "default",
			"--registry", ocitest.New(t, ocitest.Quirks{}), "--metrics-address", "0", "--health-address", "0")
		if code != exitFailure || !strings.Contains(errOut, "hint: install the kinds: kubectl apply --server-side -f charts/okara/crds") {
			t.Errorf("without the kinds: %d, %s", code, errOut)
		}
	})
	rig.Install(t, admin)
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"run", "--help"}, {"--version"}} {
		code, out, errOut := command(t, args...)
		if code != exitOK || errOut != "" || !strings.Contains(out, "okara-operator") {
			t.Errorf("%q: %d, %s%s", args, code, out, errOut)
		}
		if len(args) == 2 && !strings.Contains(out, "okara-operator run --registry registry.example.com/platform") {
			t.Errorf("%q has no example: %s", args, out)
		}
	}
}

// TestWrongFlags checks that each mistake is reported before any connection is made.
//
// Shows: operator 42 | wrong flags are reported before any connection is made
func TestWrongFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	run := func(args ...string) []string {
		return append([]string{"run", "--registry", "r.example.com/p"}, args...)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"start"}, `unknown command "start"`},
		{[]string{"completion", "fish2"}, `unknown command "fish2"`},
		{[]string{"run"}, "specify it with --registry HOST[:PORT][/PREFIX]"},
		{run("now"), `takes no arguments: "now"`},
		{run("--lease"), "needs an argument"},
		{run("--leese", "1m"), "unknown flag: --leese"},
		{run("--lease", "10ms"), "--lease 10ms is less than a second"},
		{run("--registry", "https://r.example.com"), "https://r.example.com"},
		{run("--registry", "r.example.com/Upper"), "Upper"},
		{run("--allow-origin", "https://git.internal"), "without https://"},
		{run("--allow-origin", ""), "is not HOST[:PORT]"},
		{run("--allow-origin", "git.internal:0"), "is not HOST[:PORT]"},
		{run("--front-end", "okara.example.com/ui"), "is not HOST[:PORT]"},
		{run("--watch", "Team_A"), `"Team_A" is not a valid namespace name`},
		{run("--namespace", "a/b"), `"a/b" is not a valid namespace name`},
		{run("--metrics-address", "8080"), "use :8080, for example, or 0 to disable it"},
		{run("--health-address", ":http"), "use :8080, for example, or 0 to disable it"},
		{run("--temp-dir", "/dev/null/x"), "create it first"},
		{run("--cluster", "prod"), "specify okara serve with --serve URL"},
		{run("--serve", "okara.example.com"), "is not https://HOST[:PORT]"},
		{run("--serve", "https://okara.example.com"), `--cluster "" is not a valid cluster name`},
		{run("--serve", "https://okara.example.com", "--cluster", "prod", "--instances-namespace", "A"), "is not a valid namespace name"},
		{[]string{"portal"}, "specify it with --config FILE"},
		{[]string{"portal", "--config", "/dev/null/x"}, "/dev/null/x"},
		{run("--plan-gate-address", ":9443"), "must be set together"},
		{run("--plan-gate-address", "9443", "--plan-gate-certificates", "/etc"), "use :9443, for example"},
		{run("--plan-gate-url", "https://a.example.com/plan"), `is not https://HOST[:PORT]/`},
		{run("--plan-gate-address", ":9443", "--plan-gate-certificates", "/etc", "--plan-gate-url", "http://a.example.com/plan"), `is not https://HOST[:PORT]/`},
	} {
		code, out, errOut := command(t, c.args...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, "\nhint: ") {
			t.Errorf("%q: %d, %s%s", c.args, code, out, errOut)
		}
	}
}

// TestNoCluster checks that an unusable cluster configuration is a failure with a hint.
//
// Shows: operator 42
func TestNoCluster(t *testing.T) {
	for _, c := range []struct {
		name, config string
		args         []string
		code         int
		want         string
	}{
		{"no kubeconfig", "", nil, exitFailure, "hint: specify a kubeconfig with --kubeconfig or KUBECONFIG"},
		{"no namespace", emptyConfig, nil, exitUsage, "unknown namespace of the operator: specify it with --namespace"},
		{"no certificates", emptyConfig, []string{"--namespace", "default", "--ca-file", "/none.pem"}, exitFailure, "/none.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := t.TempDir() + "/config"
			must.Succeed(t, os.WriteFile(file, []byte(c.config), 0o600))
			code, _, errOut := command(t, append([]string{"run", "--registry", "r.example.com", "--kubeconfig", file}, c.args...)...)
			if code != c.code || !strings.Contains(errOut, c.want) {
				t.Errorf("%d, %s", code, errOut)
			}
		})
	}
}

// emptyConfig is a kubeconfig without a namespace.
const emptyConfig = `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c, user: c}}], users: [{name: c, user: {}}]}`
