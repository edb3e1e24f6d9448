// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
)

const (
	cleanUpEvery = time.Hour
	countEvery   = 24 // clean-ups
)

// cleaner cleans up after objects that no longer exist. Only the leader does this.
type cleaner struct {
	direct  client.Client
	objects *kindrun.Objects
	unowned prometheus.Gauge
	log     *slog.Logger
}

// newCleaner returns a cleaner and registers its metric with the process.
func newCleaner(c client.Client, objects *kindrun.Objects, log *slog.Logger) (*cleaner, error) {
	s := &cleaner{c, objects, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "okara_states_unowned", Help: "States of runs that have resources and whose object is gone. Counted daily; they are not destroyed automatically.",
	}), log}
	return s, metrics.Registry.Register(s.unowned)
}

// NeedLeaderElection is true: one replica is enough.
func (*cleaner) NeedLeaderElection() bool { return true }

// Start cleans up until the context ends.
func (s *cleaner) Start(ctx context.Context) error {
	t := time.NewTicker(cleanUpEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		s.cleanUp(ctx, n%countEvery == 0)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func (s *cleaner) cleanUp(ctx context.Context, count bool) {
	var defs v1alpha1.ModuleKindList
	if err := s.direct.List(ctx, &defs); err != nil {
		s.log.Error("looking for leftovers of deleted objects", "error", err)
		return
	}
	orphans, err := s.objects.CleanUp(ctx, defs.Items)
	if err != nil && ctx.Err() == nil {
		s.log.Error("looking for leftovers of deleted objects", "error", err)
	}
	for _, o := range orphans {
		s.log.Warn("a Terraform belongs to an object that no longer exists and has been suspended; to destroy its resources, set spec.suspend to false and delete it", "namespace", o.Namespace, "name", o.Name)
	}
	if !count {
		return
	}
	n, err := s.objects.Unowned(ctx, defs.Items)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error("counting states without an object", "error", err)
		}
		return
	}
	s.unowned.Set(float64(n))
}
