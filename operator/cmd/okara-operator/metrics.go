// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// count adds the figures of objects to those of the process.
func (f *flags) count(mgr ctrl.Manager) (ctrl.Manager, error) {
	lists := []client.ObjectList{&v1alpha1.DepotList{}, &v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}, &v1alpha1.VersionList{}, &v1alpha1.AccessRuleList{}}
	if f.runs.on() {
		lists = append(lists, &v1alpha1.TemplateList{}, &v1alpha1.InstanceList{})
		if len(f.watch) == 0 {
			lists = append(lists, &v1alpha1.ModuleKindList{})
		}
	}
	c := verdict.Counted{Manager: mgr, Warnings: verdict.Warnings()}
	for _, m := range []prometheus.Collector{c.Warnings, &verdict.Objects{Reader: mgr.GetCache(), Leads: mgr.Elected(), Lists: lists}} {
		if err := metrics.Registry.Register(m); err != nil {
			return nil, err
		}
	}
	return c, nil
}
