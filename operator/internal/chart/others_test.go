// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestApplyOthers creates the route, the monitors and the alerts of the chart on an API
// server with the published CRDs of Gateway API and of the Prometheus operator.
//
// Shows: operator 17
func TestApplyOthers(t *testing.T) {
	config := cluster.Admin(t)
	rig.InstallOthers(t, config)
	o := options(t, "many.values.yaml")
	o.Namespace, o.APIs = cluster.Namespace(t, nil).Name, []string{"monitoring.coreos.com/v1"}
	objects := must.Get(chart.Objects(o))(t)
	want := map[string]int{"HTTPRoute": 1, "ServiceMonitor": 3, "PrometheusRule": 1}
	got := map[string]int{}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return want[o.GetKind()] == 0 })
	for _, o := range objects {
		got[o.GetKind()]++
		wrong := o.DeepCopy()
		must.Succeed(t, unstructured.SetNestedField(wrong.Object, "x", "spec", "typo"))
		if err := chart.Create(t.Context(), config, []*unstructured.Unstructured{wrong}); err == nil || !strings.Contains(err.Error(), "typo") {
			t.Errorf("%s %s with a field that its kind has not: %v", o.GetKind(), o.GetName(), err)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the chart has %v, want %v", got, want)
	}
	install(t, objects)
}
