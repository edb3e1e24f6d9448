// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/kindctl"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/portalserve"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/statebackend"
)

// runSite says how runs reach okara serve, and where instances are. Without a URL no module is run.
type runSite struct {
	serve      string
	cluster    string
	pullSecret string
	network    fluxobj.RunNetwork
	egress     string
	config     string
	instances  string
	unbounded  bool
	tool       string
	users      []string
}

func (s *runSite) addTo(f *pflag.FlagSet) {
	f.StringVar(&s.serve, "serve", "", "`URL` of okara serve, which stores the states of runs; empty: no modules are run")
	f.StringVar(&s.cluster, "cluster", "", "`NAME` of the cluster, which names its states and the issuer of its runs, okara-operator.NAME")
	f.StringVar(&s.pullSecret, "pull-secret", "", "`NAME` of a Secret in the operator's namespace for pulling modules that are not in okara serve")
	f.StringVar(&s.network.Flux, "flux-namespace", "flux-system", "`NAMESPACE` of tofu-controller")
	f.BoolVar(&s.network.None, "no-run-network-policy", false, "create no NetworkPolicy in the namespaces of runs, and delete those that were created")
	f.StringVar(&s.egress, "run-egress", "", "`FILE` with additional egress rules for runs in YAML, as in spec.egress of a NetworkPolicy")
	f.StringVar(&s.config, "config", "", "`FILE` in HCL with the instances and quota blocks, which the portal also reads")
	f.StringArrayVar(&s.users, "user-issuer", nil, "`PREFIX=ISSUER` that maps users of the cluster, named PREFIX and a subject, to that subject of the issuer at the portal, so users cannot approve their own requests (repeatable; https://ISSUER#SUBJECT is mapped by default)")
	f.BoolVar(&s.unbounded, "unsafe-no-policies", false, "run modules even though no admission policy of the chart limits what this account may write: for trials only")
	f.StringVar(&s.tool, "runner-tool", "opentofu", "`TOOL` in tofu-controller's default runner, opentofu or terraform; modules that it refuses do not run; empty: not known")
	f.StringVar(&s.instances, "instances-namespace", instancesNamespace, "`NAMESPACE` of Templates, and of the Instances that the portal makes")
}

func (s *runSite) hasRuns() bool { return s.serve != "" }

func (s *runSite) check() error {
	if !s.hasRuns() {
		if s.cluster != "" || s.pullSecret != "" || s.config != "" || s.egress != "" || s.unbounded {
			return usagef("--cluster, --pull-secret, --config, --run-egress and --unsafe-no-policies are for runs: specify okara serve with --serve URL")
		}
		return nil
	}
	if err := cmp.Or(checkServe(s.serve), checkCluster(s.cluster)); err != nil {
		return err
	}
	if _, err := instancectl.ParseUsers(s.users); err != nil {
		return usagef("--user-issuer %v", err)
	}
	if !slices.Contains([]string{"opentofu", "terraform", ""}, s.tool) {
		return usagef("--runner-tool %q is not opentofu or terraform", s.tool)
	}
	if wrong := validation.IsDNS1123Label(s.instances); len(wrong) > 0 {
		return usagef("--instances-namespace %q is not a valid namespace name: %s", s.instances, wrong[0])
	}
	return s.readEgress()
}

func (s *runSite) readEgress() error {
	if s.egress == "" {
		return nil
	}
	src, err := os.ReadFile(s.egress)
	if err != nil {
		return usagef("--run-egress: %v", err)
	}
	if err := yaml.UnmarshalStrict(src, &s.network.Egress); err != nil {
		return usagef("--run-egress %s is not a list of egress rules of a NetworkPolicy: %v", s.egress, err)
	}
	for _, rule := range s.network.Egress { // as the API server does, so that nothing is written again
		for i := range rule.Ports {
			rule.Ports[i].Protocol = cmp.Or(rule.Ports[i].Protocol, new(corev1.ProtocolTCP))
		}
	}
	return nil
}

func checkServe(server string) error {
	if u, err := url.Parse(server); err != nil || !runaccess.IsBase(u) {
		return usagef("--serve %q is not https://HOST[:PORT]", server)
	}
	return nil
}

func checkCluster(name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return usagef("--cluster %q is not a valid cluster name: %s", name, wrong[0])
	}
	return nil
}

// withCached adds the objects of instances that the operator caches. Templates are in one
// namespace; watch, if it names any, has the others of Instances and Approvals.
func (s *runSite) withCached(all map[client.Object]cache.ByObject, watch []string) map[client.Object]cache.ByObject {
	if !s.hasRuns() {
		return all
	}
	if all == nil {
		all = map[client.Object]cache.ByObject{}
	}
	all[&v1alpha1.Template{}] = cache.ByObject{Namespaces: map[string]cache.Config{s.instances: {}}}
	if len(watch) == 0 {
		return all
	}
	namespaces := map[string]cache.Config{s.instances: {}}
	for _, name := range watch {
		namespaces[name] = cache.Config{}
	}
	all[&v1alpha1.Instance{}] = cache.ByObject{Namespaces: namespaces}
	all[&v1alpha1.Approval{}] = cache.ByObject{Namespaces: namespaces}
	return all
}

// settings returns the settings of all templates, from the file and the flags.
func (s *runSite) settings() (instancectl.Settings, error) {
	users, err := instancectl.ParseUsers(s.users)
	if err != nil {
		return instancectl.Settings{}, err
	}
	var about portalserve.Instance
	if s.config != "" {
		file, err := portalserve.Read(s.config)
		if err != nil {
			return instancectl.Settings{}, portalError(err)
		}
		if about, err = file.Instance(); err != nil {
			return instancectl.Settings{}, portalError(err)
		}
	}
	about.Namespace = s.instances
	about.Users = users
	return about.Settings, nil
}

// boundsTimeout is how long policies, created with the operator, may take to be in force.
const boundsTimeout = time.Minute

// checkBounds returns an error if no policy bounds the objects that the operator writes.
func (f *flags) checkBounds(ctx context.Context, c client.Client) error {
	if f.runs.unbounded {
		return nil
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, boundsTimeout, true, func(ctx context.Context) (bool, error) {
		last = fluxobj.Bounded(ctx, c)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if errors.Is(last, fluxobj.ErrUnbounded) {
		return &hintError{last, "install the chart with admissionPolicies.enabled: true, or, for a trial, start with --unsafe-no-policies"}
	}
	return last
}

// directClient returns a client that reads the current objects, without a cache.
func directClient(mgr ctrl.Manager) (client.Client, error) {
	return client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
}

// addAccess adds the component that prepares runs to a manager.
func (f *flags) addAccess(mgr ctrl.Manager, c client.Client, r *reach, log *slog.Logger) (*runaccess.Access, error) {
	issuer, err := runaccess.NewIssuer(runaccess.IssuerOptions{Client: c, Namespace: f.namespace, Cluster: f.runs.cluster})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(issuer); err != nil {
		return nil, err
	}
	at, err := url.Parse(f.runs.serve)
	if err != nil {
		return nil, err
	}
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: f.site.caFile})
	if err != nil {
		return nil, err
	}
	known, err := states.New(states.Options{Client: r.client, Layout: r.layout, Logger: log})
	if err != nil {
		return nil, err
	}
	o := runaccess.Options{Client: c, Issuer: issuer, FrontEnd: at, Transport: transport, Stores: r.stores(log), States: known.Names}
	if f.site.caFile != "" {
		if o.CA, err = os.ReadFile(f.site.caFile); err != nil {
			return nil, err
		}
	}
	if f.runs.pullSecret != "" {
		o.PullSecret = client.ObjectKey{Namespace: f.namespace, Name: f.runs.pullSecret}
	}
	return runaccess.New(o)
}

// stores opens each state once, since a store remembers the locks that it holds.
func (r *reach) stores(log *slog.Logger) func(name string) (*statebackend.Store, error) {
	var mu sync.Mutex
	all := map[string]*statebackend.Store{}
	return func(name string) (*statebackend.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if all[name] != nil {
			return all[name], nil
		}
		s, err := states.Open(r.client, r.layout, name, statebackend.Options{Tool: userAgent(), Logger: log})
		if err == nil {
			all[name] = s
		}
		return s, err
	}
}

// startInstances adds the controllers of Templates and Instances to a manager.
func (f *flags) startInstances(mgr ctrl.Manager, r runsOf, clock *instancectl.Clock) error {
	settings, err := f.runs.settings()
	if err != nil {
		return err
	}
	options := instancerun.Options{
		Client: r.direct, Flux: r.flux, Access: r.access, Registry: r.host, Layout: r.layout, PlainHTTP: f.site.plainHTTP,
		Instances: f.runs.instances, Operator: f.namespace, Network: f.runs.network, Gate: f.gate.webhook(f.namespace),
	}
	return instancectl.Setup(mgr, r.direct, instancectl.Options{
		Settings: settings, Clock: clock, Operator: f.namespace, Modules: instancerun.Modules{Catalog: r.list}, Tool: f.runs.tool,
		Charts:   instancerun.Charts{Flux: options.Flux, Registry: r.host, PlainHTTP: f.site.plainHTTP},
		Executor: instancerun.New(options),
		Installed: func(o *v1alpha1.Template) error {
			return fluxexec.CheckInstalled(mgr.GetRESTMapper(), o.Spec.Executor == v1alpha1.ExecutorHelm, o.Spec.Approval.Mode == v1alpha1.ApprovalPlan, options.Gate)
		},
	})
}

// runsOf is what the controllers that run modules have in common.
type runsOf struct {
	*reach
	direct client.Client // reads the current objects, without a cache
	access *runaccess.Access
	flux   *fluxexec.Executor
	list   *catalog.Catalog
}

// startRuns adds the controllers of runs. With some namespaces there are no cluster-wide kinds.
func (f *flags) startRuns(ctx context.Context, mgr ctrl.Manager, r *reach, clock *instancectl.Clock, log *slog.Logger) error {
	c, err := directClient(mgr)
	if err != nil {
		return err
	}
	if err := f.checkBounds(ctx, c); err != nil {
		return err
	}
	access, err := f.addAccess(mgr, c, r, log)
	if err != nil {
		return err
	}
	runs := runsOf{r, c, access, &fluxexec.Executor{Client: c}, catalog.New(catalog.Options{Client: r.client, Layout: r.layout, Logger: log})}
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
		Gate: f.gate.webhook(f.namespace), Network: f.runs.network, Events: mgr.GetEventRecorder("okara-operator"),
	})
	cleaner, err := newCleaner(r.direct, objects, log)
	if err != nil {
		return err
	}
	if err := mgr.Add(cleaner); err != nil {
		return err
	}
	return kindctl.Setup(mgr, kindctl.Options{
		Client: r.direct, Modules: kindctl.Registry{Catalog: r.list, Client: r.client}, Objects: objects, Namespace: f.namespace, Tool: f.runs.tool,
		Gate: f.gate.webhook(f.namespace),
	})
}
