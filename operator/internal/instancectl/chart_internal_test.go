// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// FoundChart is the result of resolving any chart.
type FoundChart struct {
	Version, Digest string
	Err, Lacks      error
}

// Resolve returns it for each Template.
func (f FoundChart) Resolve(_ context.Context, o *v1alpha1.Template) (template.Source, error) {
	s := ChartSource(o.Spec.Chart)
	s.Version, s.Digest = f.Version, f.Digest
	return s, f.Err
}

// ResolvedChart runs the controller of Templates on a Template of a chart.
func ResolvedChart(t *testing.T, c client.Client, o *v1alpha1.Template, found FoundChart) reconcile.Result {
	t.Helper()
	r := &resolver{Client: c, live: c, Options: Options{Settings: Settings{Namespace: o.Namespace}, Charts: found, Installed: func(*v1alpha1.Template) error { return found.Lacks }}}
	again := must.Get(r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}))(t)
	must.Succeed(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	return again
}
