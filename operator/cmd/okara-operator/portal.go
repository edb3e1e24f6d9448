// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/portalserve"
)

const portalLong = `Serve the JSON API and the pages of templates and instances for the Templates of
one namespace and all Instances. User actions become objects there, on behalf of the user who is
logged in, and the operator carries them out. The portal needs no registry and reads no Secrets.

--config names a file with the blocks of okara serve for access: tls, ui,
token, issuer, rule, login, instances and quota. It is read again when it changes.

SIGTERM and Ctrl-C stop it with exit code 0, once requests in progress are answered. The
exit code is 2 if a flag or the file is invalid.`

const portalExample = `  okara-operator portal --config /etc/okara/portal.hcl`

type portalFlags struct {
	kubeconfig string
	config     string
	namespace  string
	caFile     string
	verbose    bool
}

// instancesNamespace is the default namespace of Templates, and of what the portal makes.
const instancesNamespace = "okara-instances"

func newPortal() *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use: "portal", Short: "Serve the API and the pages of instances", Long: portalLong, Args: noArgs, Example: portalExample,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.config == "" {
				return usagef("no configuration given: specify it with --config FILE")
			}
			return runPortal(cmd.Context(), f, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "HCL `FILE` with the configuration")
	cmd.Flags().StringVar(&f.namespace, "instances-namespace", instancesNamespace, "`NAMESPACE` of Templates, and of the Instances that it makes")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default in a cluster: the service account)")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "PEM `FILE` with additional certificates to trust")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "log each request")
	return cmd
}

func runPortal(ctx context.Context, f portalFlags, errOut io.Writer) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewJSONHandler(errOut, &slog.HandlerOptions{Level: level})
	log := slog.New(handler)
	quiet := slog.NewJSONHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn})
	ctrl.SetLogger(logr.FromSlogHandler(quiet))
	klog.SetSlogLogger(slog.New(quiet))
	settings, err := portalserve.Read(f.config)
	if err != nil {
		return portalError(err)
	}
	config, err := connectCluster(&flags{kubeconfig: f.kubeconfig, namespace: f.namespace})
	if err != nil {
		return err
	}
	clock := &instancectl.Clock{}
	config.Wrap(clock.Watch)
	mgr, err := f.manager(config, settings.Metrics)
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{&v1alpha1.Template{}, &v1alpha1.Instance{}, &v1alpha1.ModuleKind{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); meta.IsNoMatchError(err) {
			return &hintError{err, "install the kinds: kubectl apply --server-side -f charts/okara/crds"}
		} else if err != nil {
			return err
		}
	}
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: f.caFile})
	if err != nil {
		return err
	}
	p, _, err := portalserve.New(portalserve.Options{
		File: f.config, Namespace: f.namespace, Client: mgr.GetClient(), Clock: clock, Transport: transport, Version: buildinfo.Version(), Logger: log,
	})
	if err != nil {
		return portalError(err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return servePortal(ctx, p, settings, log) })); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// portalDrain is how long requests in progress may take when the portal stops.
const portalDrain = 20 * time.Second

// servePortal answers requests until ctx ends, and then finishes those in progress.
func servePortal(ctx context.Context, p *portalserve.Portal, s *portalserve.Settings, log *slog.Logger) error {
	o := httpserve.Options{Addr: s.Listen, Handler: p, Drain: portalDrain, Logger: slog.New(debugOnly{log.Handler()})}
	if s.TLS != nil {
		o.TLSCert = s.TLS.Cert
		o.TLSKey = s.TLS.Key
	}
	srv, err := httpserve.Listen(o)
	if err != nil {
		return err
	}
	log.Info("okara-operator portal listening", "address", srv.Addr())
	go p.Watch(ctx)
	defer context.AfterFunc(ctx, p.Close)()
	return srv.Serve(ctx)
}

// debugOnly logs requests only if --verbose is set.
type debugOnly struct{ slog.Handler }

func (h debugOnly) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// portalError tells a mistake in the file from a temporary error.
func portalError(err error) error {
	if _, ok := errors.AsType[*syntax.SettingError](err); ok {
		return &usageError{err}
	}
	return err
}

// manager makes the manager of the portal's namespace, with metrics.
func (f *portalFlags) manager(config *rest.Config, metrics string) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metrics = cmp.Or(metrics, "0")
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: metrics}, HealthProbeBindAddress: "0",
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), DefaultNamespaces: map[string]cache.Config{f.namespace: {}},
			ByObject: map[client.Object]cache.ByObject{&v1alpha1.Instance{}: {Namespaces: map[string]cache.Config{cache.AllNamespaces: {}}}},
		},
	})
}
