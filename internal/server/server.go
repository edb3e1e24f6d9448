// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Env is what a server needs from its process. Every field is required, except Debug and Tracer.
type Env struct {
	Process
	Logs
	Outside
	Supply
}

// Process is the process itself.
type Process struct {
	Version string // of okara
	Getenv  func(string) string
	Stderr  io.Writer                        // receives an audit log named "-"
	Note    func(format string, args ...any) // prints a message for the user that started the server
	Ready   func(Ready) error                // is called once the server answers
	Again   func() (*Settings, error)        // reads the settings again from their files
	Reload  <-chan os.Signal                 // each signal reads rights and keys again
}

// Logs are the destinations of a server's log records and traces.
type Logs struct {
	Log    *slog.Logger         // for operators
	Debug  *slog.Logger         // every request; nil: not logged
	Tracer trace.TracerProvider // nil: no traces
}

// Outside configures connections to other servers.
type Outside struct {
	OCI       oci.Options                // registries
	Transport httpserve.TransportOptions // the same, for connections that need a separate dialer
	States    statebackend.Options       // how states are stored, with their keys
	HostToken func(host string) string   // the API token for a host, "" for none
}

// Supply has the functions that publish without a client: for the depot file and webhooks.
type Supply struct {
	Secret    func(variable, file string) (string, error) // reads a variable if it is named, else a file
	CheckAuth func(supply.Auth) error                     // checks that the secrets that an auth block names exist
	Origins   func(supply.Auth) (supply.Origins, error)   // clients for origins with these credentials
	Syncer    func(set *supply.Set, d *depot.Depot, usedBy []string, uses *states.Uses) (*supply.Syncer, error)
}

// Ready describes a server that has started.
type Ready struct {
	URL        string
	Hostname   string   // that clients use for it; "": that of URL
	Restricted bool     // there are rules, so that not any token is accepted
	Metrics    string   // URL of a separate listener for metrics; "": none
	Storage    string   // a folder, or another registry
	CA         string   // file of the local CA; "": none
	Routes     []string // of the port, such as "GET /v1/catalog", sorted
}

// Run serves until ctx ends; running downloads may then finish. A [syntax.SettingError] is a
// mistake in the settings.
func Run(ctx context.Context, s *Settings, env Env) error {
	files.CleanUp("")            // temporary files of a server that was killed
	again := newReloader(s, env) // before any file is read that may change
	o, err := s.newOptions(env)
	if err != nil {
		return err
	}
	again.rules = o.rules
	again.metrics = o.Metrics
	back, err := s.openBackend(&o, env)
	if back.own != nil {
		defer back.own.Close() // after the last request
	}
	if err != nil {
		return err
	}
	var file slog.Handler
	if s.AuditLog != "" {
		out, closeLog, err := openLog(s.AuditLog, env)
		if err != nil {
			return err
		}
		defer closeLog()
		file = slog.NewJSONHandler(out, nil)
	}
	if err := o.keepAuditLog(file, env); err != nil {
		return err
	}
	if o.Sessions != nil && s.BasePath != "" {
		env.Log.Warn("with base_path, everything else on this host can act as the user logged in to the pages: use a separate host", "base_path", s.BasePath)
	}
	for _, limit := range s.addressLimits(o) {
		env.Log.Warn(limit)
	}
	o.Metrics.addRunning(env.Version, s.Storage)
	if o.States != nil && !o.Alone {
		o.Metrics.all.MustRegister(newUsesCollector(o.States.Uses()))
	}
	var runner *depotRunner
	if s.Depot != "" {
		if runner, err = newDepotRunner(s, o, env); err != nil {
			return err
		}
		o.Depot = runner
		o.depots = runner
	}
	if err := o.extend(ctx, s, back, env); err != nil {
		return err
	}
	warnUnconditional(env.Log, o.Access)
	if open, ok := errors.AsType[*files.ModeError](statictoken.CheckMode(s.TokenFile, o.Access.Tokens)); ok {
		env.Log.Warn("the token file holds whole tokens, which everybody on this machine may read: change its mode, or keep hashes in it", "error", open)
	}
	front, err := New(o)
	if err != nil {
		return &syntax.SettingError{Err: err}
	}
	srv, ca, err := s.listen(front, env)
	if err != nil {
		return err
	}
	if listen := front.mounted.Listen; listen != nil {
		if err := listen(srv.URL(), ca); err != nil {
			return err
		}
	}
	metrics, stopMetrics, err := serveMetrics(ctx, s.Metrics, o.Metrics, env.Debug, s.Hostname, s.PublicURL)
	if err != nil {
		return err
	}
	if err := env.Ready(Ready{URL: srv.URL(), Hostname: s.Hostname, Restricted: !o.Access.AnyToken, Metrics: metrics, Storage: back.where, CA: ca, Routes: front.kit.Routes()}); err != nil {
		return errors.Join(err, stopMetrics())
	}
	work := []func(context.Context){front.Run, func(ctx context.Context) { again.watchFiles(ctx, front, env.Reload) }}
	if back.own != nil {
		work = append(work, func(ctx context.Context) { back.own.Run(ctx, s.GC.gcSchedule(o.Metrics)) })
	}
	if runner != nil {
		work = append(work, runner.runDepots)
	}
	if w := front.mounted.Work; w != nil {
		work = append(work, func(ctx context.Context) { w(endAfter(ctx, s.grace())) })
	}
	env.Log.LogAttrs(ctx, slog.LevelInfo, "started", append([]slog.Attr{
		slog.String("version", env.Version), slog.String("url", srv.URL()), slog.String("storage", back.where),
	}, service.TuneMemory(ctx, env.Getenv)...)...)
	err = serveUntil(ctx, srv, front, work)
	env.Log.Info("ended", "reason", cmp.Or(err, context.Cause(ctx)))
	return errors.Join(err, stopMetrics())
}

// serveUntil answers requests until ctx ends, and runs the background work meanwhile.
func serveUntil(ctx context.Context, srv *httpserve.Server, front *Front, work []func(context.Context)) error {
	context.AfterFunc(ctx, front.Closing)
	var running sync.WaitGroup
	for _, w := range work {
		running.Go(func() { w(ctx) })
	}
	err := srv.Serve(ctx)
	running.Wait()
	front.Finish(ctx)
	return err
}

// endAfter returns a context that ends grace after ctx: the leader leads while requests still come.
func endAfter(ctx context.Context, grace time.Duration) context.Context {
	if grace <= 0 {
		return ctx
	}
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return later
}

// openLog opens an audit log for appending.
func openLog(file string, env Env) (io.Writer, func(), error) {
	if file == "-" {
		return env.Stderr, func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, &syntax.SettingError{Err: err}
	}
	out := auditlog.NewWriter(f, func(err error) { env.Log.Error("audit log not written", "error", err) })
	return out, func() {
		if err := errors.Join(out.Close(), f.Close()); err != nil {
			env.Note("close %s: %v", file, err)
		}
	}, nil
}
