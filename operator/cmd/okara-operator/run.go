// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
)

const runLong = `Start the controllers. Of several replicas one leads, and the next takes over
when it ends. The registry is reached with the credentials that okara itself would
use: a file that DOCKER_CONFIG or REGISTRY_AUTH_FILE names, or a credential helper.

What objects name as origins is asked only at public addresses. --allow-origin
names hosts at private addresses that it may be, too.`

// flags are those of run.
type flags struct {
	site       registrySite
	kubeconfig string
	namespace  string
	watch      []string
	metrics    string
	health     string
	lease      time.Duration
	verbose    bool
}

func newRun() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "run", Short: "Start the controllers", Long: runLong, Args: cobra.NoArgs,
		Example: "  okara-operator run --registry registry.example.com/platform",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	f.site.add(cmd.Flags())
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the cluster; in a cluster its own service account")
	cmd.Flags().StringVar(&f.namespace, "namespace", "", "`NAMESPACE` of the operator, which has the lease, and whose objects may use every address (default that of its service account)")
	cmd.Flags().StringSliceVar(&f.watch, "watch", nil, "`NAMESPACE` whose objects are looked at (repeatable; default all)")
	cmd.Flags().StringVar(&f.metrics, "metrics-address", ":8080", "`ADDRESS` that serves /metrics; 0: none")
	cmd.Flags().StringVar(&f.health, "health-address", ":8081", "`ADDRESS` that serves /healthz and /readyz; 0: none")
	cmd.Flags().DurationVar(&f.lease, "lease", time.Minute, "time after which the next replica leads when the leader is gone")
	cmd.Flags().BoolVar(&f.verbose, "verbose", false, "log each run")
	return cmd
}

func run(ctx context.Context, f flags) error {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	ctrl.SetLogger(logr.FromSlogHandler(log))
	config, err := connect(&f)
	if err != nil {
		return err
	}
	options, err := f.site.open(slog.New(log))
	if err != nil {
		return err
	}
	options.Namespace = f.namespace
	mgr, err := f.manager(config)
	if err != nil {
		return err
	}
	if err := registryctl.Setup(ctx, mgr, options); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// connect says how to reach the cluster, and finds out in which namespace this runs.
func connect(f *flags) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to a cluster: %w: name one by --kubeconfig", err)
	}
	if f.namespace == "" {
		if f.namespace, _, err = loaded.Namespace(); err != nil {
			return nil, err
		}
	}
	if f.lease < time.Second {
		return nil, errors.New("--lease is less than a second")
	}
	config.QPS = -1 // the API server shares out by itself
	return config, nil
}

// manager makes what runs the controllers. A leader that ends gives its lease back.
func (f *flags) manager(config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	renew, retry := f.lease*2/3, f.lease/6
	options := ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: f.metrics}, HealthProbeBindAddress: f.health,
		LeaderElection: true, LeaderElectionID: "okara-operator", LeaderElectionNamespace: f.namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &f.lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
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
	return mgr, mgr.AddReadyzCheck("process", healthz.Ping)
}
