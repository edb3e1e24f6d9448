// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

const runLong = `Start the controllers of Depots, Modules, Providers, Versions and AccessRules. With several
replicas one is the leader, and another takes over when it stops. The registry is accessed
with the credentials that okara itself would use: a file that DOCKER_CONFIG or
REGISTRY_AUTH_FILE names, or a credential helper.

Origins that objects name are contacted only at public addresses. --allow-origin also
allows hosts at private addresses.

With --serve it also runs Instances, with --watch only those of the named namespaces and
of that of Templates, and without it the objects of the kinds that ModuleKinds define, by tofu-controller, with their states in
that okara serve. What it does not process, Templates, Instances and ModuleKinds without
--serve, and ModuleKinds with --watch, gets no status from it; it logs that at its start.

On SIGTERM and Ctrl-C it finishes its work and releases its lease, with exit code
0. The exit code is 1 if it fails or loses its lease, and 2 if a flag is invalid.`

const runExample = `  # in a cluster
  okara-operator run --registry registry.example.com/platform

  # from a workstation
  okara-operator run --kubeconfig ~/.kube/config --namespace okara-system \
    --registry registry.example.com/platform`

// flags holds the flags of run.
type flags struct {
	site       registrySite
	gate       gateSite
	runs       runSite
	kubeconfig string
	namespace  string
	issuers    []string
	watch      []string
	metrics    string
	health     string
	lease      time.Duration
	verbose    bool
}

func newRun() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "run", Short: "Start the controllers", Long: runLong, Args: noArgs,
		Example: runExample,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return runOperator(cmd.Context(), f, cmd.ErrOrStderr())
		},
	}
	f.site.addTo(cmd.Flags())
	f.gate.addTo(cmd.Flags())
	f.runs.addTo(cmd.Flags())
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default in a cluster: the service account)")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "`NAMESPACE` of the operator, which contains the lease, and whose objects may use every address (default that of its service account)")
	cmd.Flags().StringArrayVar(&f.issuers, "issuer", nil, "`ISSUER` in the configuration of okara serve that AccessRules may name (repeatable)")
	cmd.Flags().StringSliceVar(&f.watch, "watch", nil, "`NAMESPACE` whose objects are processed (repeatable; default all)")
	cmd.Flags().StringVar(&f.metrics, "metrics-address", ":8080", "`ADDRESS` that serves /metrics; 0: none")
	cmd.Flags().StringVar(&f.health, "health-address", ":8081", "`ADDRESS` that serves /healthz and /readyz; 0: none")
	cmd.Flags().DurationVar(&f.lease, "lease", time.Minute, "time after which another replica takes over from a leader that is gone")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "log each run")
	return cmd
}

// check validates the flags before any connection is made.
func (f *flags) check() error {
	if err := f.site.check(); err != nil {
		return err
	}
	if err := f.gate.check(); err != nil {
		return err
	}
	if err := f.runs.check(); err != nil {
		return err
	}
	names := slices.Clone(f.watch)
	if f.namespace != "" {
		names = append(names, f.namespace)
	}
	for _, name := range names {
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			return usagef("%q is not a valid namespace name: %s", name, wrong[0])
		}
	}
	for _, a := range []struct{ flag, address string }{{"metrics-address", f.metrics}, {"health-address", f.health}} {
		if _, port, err := net.SplitHostPort(a.address); a.address != "0" && (err != nil || !isPort(port)) {
			return usagef("--%s %q is not [HOST]:PORT: use :8080, for example, or 0 to disable it", a.flag, a.address)
		}
	}
	if f.lease < time.Second {
		return usagef("--lease %s is less than a second", f.lease)
	}
	return nil
}

func runOperator(ctx context.Context, f flags, errOut io.Writer) error {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.NewJSONHandler(errOut, &slog.HandlerOptions{Level: level})
	ctrl.SetLogger(logr.FromSlogHandler(log))
	klog.SetSlogLogger(slog.New(log)) // of the lease and of watches
	config, err := connectCluster(&f)
	if err != nil {
		return err
	}
	registry, err := f.site.newReach(slog.New(log))
	if err != nil {
		return err
	}
	options, err := f.site.openOptions(registry)
	if err != nil {
		return err
	}
	clock := &instancectl.Clock{}
	config.Wrap(clock.Watch)
	options.Namespace = f.namespace
	options.Issuers = f.issuers
	mgr, err := f.manager(config)
	if err == nil {
		mgr, err = f.registerCounts(mgr)
	}
	if err != nil {
		return err
	}
	if err := f.gate.startGate(mgr, f.namespace, slog.New(log)); err != nil {
		return err
	}
	if err := registryctl.Setup(ctx, mgr, options); meta.IsNoMatchError(err) {
		return &hintError{err, "install the kinds: kubectl apply --server-side -f charts/okara/crds"}
	} else if err != nil {
		return err
	}
	if f.runs.hasRuns() {
		if err := f.startRuns(ctx, mgr, registry, clock, slog.New(log)); err != nil {
			return err
		}
	}
	switch {
	case !f.runs.hasRuns():
		slog.New(log).Warn("Templates, Instances and ModuleKinds are not processed: --serve is not set")
	case len(f.watch) > 0:
		slog.New(log).Warn("ModuleKinds are not processed: --watch is set")
	}
	return mgr.Start(ctx)
}

// connectCluster returns the configuration of the connection, and sets the operator's namespace.
func connectCluster(f *flags) (*rest.Config, error) {
	config, namespace, err := loadConfig(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	if f.namespace == "" {
		// A kubeconfig without a namespace also yields "default", whose objects may use
		// every address.
		if f.namespace = namespace; namespace == metav1.NamespaceDefault {
			return nil, usagef("unknown namespace of the operator: specify it with --namespace")
		}
	}
	config.QPS = -1 // the API server limits requests itself
	return config, nil
}

// loadConfig returns a kubeconfig, "" for the default, and its namespace.
func loadConfig(kubeconfig string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", &hintError{fmt.Errorf("no usable cluster configuration: %w", err), "specify a kubeconfig with --kubeconfig or KUBECONFIG"}
	}
	namespace, _, err := loaded.Namespace()
	return config, namespace, err
}

// readyTimeout is shorter than the default timeout of a probe.
const readyTimeout = 500 * time.Millisecond

// manager makes the controllers' manager; a leader releases its lease.
func (f *flags) manager(config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{registryctl.AddToScheme, fluxobj.AddToScheme, apiextensions.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	renew := f.lease * 2 / 3
	retry := f.lease / 6
	options := ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: f.metrics}, HealthProbeBindAddress: f.health,
		LeaderElection: true, LeaderElectionID: "okara-operator", LeaderElectionNamespace: f.namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &f.lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: f.runs.withCached(registryctl.Cached(f.namespace), f.watch)},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	}
	for _, ns := range f.watch {
		if options.Cache.DefaultNamespaces == nil {
			options.Cache.DefaultNamespaces = map[string]cache.Config{}
		}
		options.Cache.DefaultNamespaces[ns] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("process", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("cache", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the objects of the cluster have not been read yet")
		}
		return nil
	})
}

// registerCounts registers the metrics of objects with those of the process.
func (f *flags) registerCounts(mgr ctrl.Manager) (ctrl.Manager, error) {
	lists := []client.ObjectList{&v1alpha1.DepotList{}, &v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}, &v1alpha1.VersionList{}, &v1alpha1.AccessRuleList{}}
	if f.runs.hasRuns() {
		lists = append(lists, &v1alpha1.TemplateList{}, &v1alpha1.InstanceList{})
		if len(f.watch) == 0 {
			lists = append(lists, &v1alpha1.ModuleKindList{})
		}
	}
	c := verdict.Counted{Manager: mgr, Warnings: verdict.Warnings()}
	for _, m := range []prometheus.Collector{c.Warnings, &verdict.Objects{Reader: mgr.GetCache(), Elected: mgr.Elected(), Lists: lists}} {
		if err := metrics.Registry.Register(m); err != nil {
			return nil, err
		}
	}
	return c, nil
}
