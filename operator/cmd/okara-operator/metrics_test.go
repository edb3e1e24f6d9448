// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/seed-141914ff/okara/internal/metricstest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestQueries holds alerts and dashboard to the metrics.
func TestQueries(t *testing.T) {
	config := cluster.Admin(t)
	install(t, config)
	s := site{config: writeConfig(t, config), registry: ocitest.New(t, ocitest.Quirks{}), origin: "127.0.0.1:1"}
	scheme := runtime.NewScheme()
	must.Succeed(t, v1alpha1.AddToScheme(scheme))
	c := must.Get(client.New(config, client.Options{Scheme: scheme}))(t)
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t, nil).Name, Name: "vpc"}}
	m.Spec.Address, m.Spec.Source = "net/vpc/aws", "oci://127.0.0.1:1/none" // an address that its namespace may not use
	must.Succeed(t, c.Create(t.Context(), m))
	r := s.start(t)
	page := ""
	until(t, func() bool {
		page = r.get(t, "http://"+r.metrics+"/metrics")
		return strings.Contains(page, `okara_operator_objects{kind="Module",ready="false",reason="AddressNotAllowed"}`) &&
			strings.Contains(page, `okara_operator_warnings_total{kind="Module",reason="AddressNotAllowed"}`)
	})
	all := metricstest.Series{}
	all.Scraped(page)
	must.Get(newCleaner(nil, nil, slog.New(slog.NewTextHandler(io.Discard, nil))))(t)
	families := must.Get(metrics.Registry.Gather())(t)
	for _, f := range families {
		if all[f.GetName()] == nil {
			all[f.GetName()] = []string{}
		}
	}
	all.Documented(t, filepath.Join(rig.Root(), "docs", "reference", "serve-reference.md"))
	n := 0
	for _, file := range []string{"dashboard.json", "alerts.yaml"} {
		for _, query := range metricstest.Queries(t, filepath.Join(rig.Root(), "charts", "okara", "files", file)) {
			all.Check(t, query)
			n++
		}
	}
	if n < 20 {
		t.Errorf("%d queries", n)
	}
}
