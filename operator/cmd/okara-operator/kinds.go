// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/kindctl"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// runsOf is what all that runs modules has in common.
type runsOf struct {
	*reach
	direct client.Client // reads what is there now, not a cache
	access *runaccess.Access
	flux   *fluxexec.Executor
	list   *catalog.Catalog
}

// startRuns adds the controllers of what runs modules to a manager. An operator of some
// namespaces has no kinds: they are of no namespace.
func (f *flags) startRuns(ctx context.Context, mgr ctrl.Manager, r *reach, clock *instancectl.Clock, log *slog.Logger) error {
	c, err := direct(mgr)
	if err != nil {
		return err
	}
	if err := f.bounded(ctx, c); err != nil {
		return err
	}
	access, err := f.access(mgr, c, r, log)
	if err != nil {
		return err
	}
	runs := runsOf{r, c, access, &fluxexec.Executor{Client: c, Live: c}, catalog.New(catalog.Options{Client: r.client, Layout: r.layout, Logger: log})}
	if err := f.startInstances(mgr, runs, clock); err != nil || len(f.watch) > 0 {
		return err
	}
	return f.startKinds(mgr, runs, log)
}

// startKinds adds the controller of ModuleKinds to a manager.
func (f *flags) startKinds(mgr ctrl.Manager, r runsOf, log *slog.Logger) error {
	at := kindspec.Registry{Host: r.host, Layout: r.layout, PlainHTTP: f.site.plainHTTP, Namespace: f.namespace}
	objects := kindrun.New(kindrun.Options{
		Client: r.direct, Access: r.access, Records: records.Store{Client: r.direct, Namespace: f.namespace}, Executor: r.flux, Want: at.Wanted, Readers: kindspec.OutputsRole,
		Gate: f.gate.webhook(f.namespace), FluxNamespace: f.runs.flux, Events: mgr.GetEventRecorder("okara-operator"),
	})
	sweeps, err := newSweeper(r.direct, objects, log)
	if err != nil {
		return err
	}
	if err := mgr.Add(sweeps); err != nil {
		return err
	}
	return kindctl.Setup(mgr, kindctl.Options{
		Client: r.direct, Modules: kindctl.Registry{Catalog: r.list, Client: r.client}, Objects: objects, Namespace: f.namespace,
	})
}
