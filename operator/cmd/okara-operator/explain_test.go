// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestExplain explains an object by each name of its kind, and missing kinds and objects.
func TestExplain(t *testing.T) {
	config := cluster.Admin(t)
	install(t, config)
	scheme := runtime.NewScheme()
	must.Succeed(t, v1alpha1.AddToScheme(scheme))
	c := must.Get(client.New(config, client.Options{Scheme: scheme}))(t)
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t, nil).Name, Name: "vpc"}}
	m.Spec.Address, m.Spec.Source = "net/vpc/aws", "github.com/example/vpc"
	must.Succeed(t, c.Create(t.Context(), m))
	m.Status.ObservedGeneration = m.Generation
	verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonAddressNotAllowed, Message: "namespace acme may use module:acme/** only"}.Set(&m.Status.Conditions, m.Generation)
	must.Succeed(t, c.Status().Update(t.Context(), m))
	file := writeConfig(t, config)
	for _, kind := range []string{"module", "Modules", "okmod", "module.okara.dev"} {
		code, out, errOut := command(t, "explain", kind, "vpc", "-n", m.Namespace, "--kubeconfig", file)
		if code != exitOK || errOut != "" || !strings.Contains(out, "may use module:acme/** only") || !strings.Contains(out, "kubectl annotate namespace "+m.Namespace+" okara.dev/addresses") {
			t.Errorf("%s: %d, %s%s", kind, code, out, errOut)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"module", "vpc", "-n", "default"}, exitFailure, "hint: it may be in another namespace"},
		{[]string{"secret", "vpc"}, exitFailure, `okara has no kind "secret"`},
		{[]string{"module"}, exitUsage, "explain requires a kind and a name"},
	} {
		code, out, errOut := command(t, append([]string{"explain", "--kubeconfig", file}, c.args...)...)
		if code != c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%q: %d, %s%s", c.args, code, out, errOut)
		}
	}
}
