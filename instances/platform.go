// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// platform launches instances in this server: ledger, driver, executor and API. With role =
// "portal" it only forwards every request to the leader.
type platform struct {
	o       *settings.Options
	quotas  []settings.Quota
	base    server.Base
	storage string // absolute
	keys    *keyring.Ring
	log     *slog.Logger

	machine   *lifecycle.Machine
	ledger    *ledger.Ledger
	metrics   *driver.Metrics
	templates *templatesource.Templates
	driver    *driver.Driver
	executor  *localexec.Local
	queue     *jobs.Queue // of notices; nil: no notices are sent
	socket    *runRegistry

	guard *access.Guard  // of the front-end
	at    sandbox.Server // where runs reach the front-end, without a token
}

// newPlatform returns a platform that does nothing yet.
func newPlatform(ctx context.Context, e *Extension, b server.Base) (*platform, error) {
	l := &platform{o: e.options, quotas: e.blocks.Quotas, base: b, log: b.Env.Log, machine: &lifecycle.Machine{Limits: e.options.Limits}}
	keys, err := keyring.New(b.Keys)
	if err != nil {
		return nil, err
	}
	l.keys = keys
	if l.storage, err = filepath.Abs(b.Settings.Storage); err != nil { // children run in another folder
		return nil, err
	}
	if err := l.openLedger(); err != nil {
		return nil, err
	}
	if l.o.Role == settings.RolePortal {
		return l, nil
	}
	l.metrics = driver.NewMetrics(b.Metrics, l.ledger.View)
	if b.BuiltIn != nil {
		l.socket = &runRegistry{registry: b.BuiltIn, layout: b.Layout, keys: keys, now: time.Now}
	}
	if l.executor, err = localexec.NewLocal(ctx, l.localOptions()); err != nil {
		return nil, syntax.WrongAt(e.blocks.Executors[0].Range, err)
	}
	return l, l.notices()
}

func (l *platform) openLedger() (err error) {
	options := ledger.Options{
		Repo:    func(number int) (*oci.Repo, error) { return l.base.Client.Repo(l.base.Layout.Ledger(number)) },
		Machine: l.machine, Sealer: l.base.Env.States.Sealer, InClear: l.o.InClear, BuiltIn: l.base.BuiltIn != nil,
		Folder: filepath.Join(l.storage, "ledger"), Entries: l.launchedBefore,
		Effects: func(ctx context.Context, effects []lifecycle.Effect) { l.driver.Effects(ctx, effects) },
		Portal:  l.o.Role == settings.RolePortal, AddressKeys: addressKeys(l.base.Keys), PortalKeys: addressKeys(l.base.PortalKeys),
		Committed: func(took time.Duration) { l.metrics.Committed(took) },
		Tool:      l.base.Env.States.Tool, Logger: l.log,
	}
	if l.o.Advertise != nil {
		options.Address = l.o.Advertise.String()
	}
	if options.Portal {
		options.Folder = ""
	} else if err := os.MkdirAll(options.Folder, 0o700); err != nil {
		return err
	}
	l.ledger, err = ledger.New(options)
	return err
}

// addressKeys derives the keys that authenticate the leader's address from archive keys on servers,
// session keys on portals.
func addressKeys(shared []keyring.Key) [][]byte {
	var keys [][]byte
	for _, k := range shared {
		mac := hmac.New(sha256.New, k.Secret)
		mac.Write([]byte("okara ledger address"))
		keys = append(keys, mac.Sum(nil))
	}
	return keys
}

// launchedBefore reports whether the queue has entries of instances: then an empty
// ledger is lost, not new.
func (l *platform) launchedBefore(ctx context.Context) (bool, error) {
	queue, err := l.base.Client.Repo(l.base.Layout.QueueRepo())
	if err != nil {
		return false, err
	}
	for tag, err := range queue.Tags(ctx) {
		if err != nil {
			return false, oci.IgnoreNotFound(err)
		}
		if records.EntryInstance(tag) != "" {
			return true, nil
		}
	}
	return false, nil
}

func (l *platform) notices() error {
	if l.o.Notify == nil {
		return nil
	}
	guard := upstream.NewGuard(l.base.Settings.AllowInternal)
	guard.Named(l.o.Notify.URL.Host) // the administrator has named it in the settings
	out := l.base.Env.Transport
	out.Dial = guard.Dial
	transport, err := httpserve.Transport(out)
	if err != nil {
		return err
	}
	notifier, err := driver.NewNotifier(driver.NotifyOptions{
		URL: l.o.Notify.URL, Secret: l.o.Notify.Secret, Transport: guard.Transport(transport), View: l.ledger.View, UserAgent: l.base.Env.OCI.UserAgent,
	})
	if err != nil {
		return err
	}
	repo, err := l.base.Client.Repo(l.base.Layout.QueueRepo())
	if err != nil {
		return err
	}
	l.queue = jobs.New(jobs.Options{Repo: repo, Handlers: map[string]jobs.Handler{driver.KindNotice: notifier.Do}, Logger: l.log})
	return nil
}

// handler returns the handler of /api/v1/, and the one that answers only from this replica.
func (l *platform) handler(kit *service.Kit, modules *catalog.Catalog) (all, own http.Handler, err error) {
	l.guard = kit.Guard
	transport, err := l.peers()
	if err != nil {
		return nil, nil, err
	}
	forward := portal.ForwardOptions{
		Kit: kit, Leader: l.ledger.Leader, Runner: l.o.Role == settings.RoleRunner, Transport: transport, Plain: l.o.ForwardPlain,
	}
	if l.o.Role == settings.RolePortal {
		return portal.NewForward(forward), nil, nil
	}
	l.templates = templatesource.New(templatesource.Options{
		Dir: l.o.Templates, Sources: l.o.Sources, Catalog: modules, Logger: l.log,
		Defaults: template.Defaults{TTL: l.o.TTL, Connection: l.o.Connection}, Known: l.knownNames(), Tool: l.executor.Tool(),
	})
	l.driver = driver.New(driver.Options{
		Store: l.ledger, Machine: l.machine, Changed: l.ledger.Changed, Executor: l.executor,
		Templates: l.templates, Client: l.base.Client, Layout: l.base.Layout, Sealer: l.base.Env.States.Sealer, Ledger: l.ledgerRepository,
		Concurrency: l.o.Runs, Limits: run.Limits{Memory: l.o.Executor.Memory.Value(), Scratch: l.o.Executor.Scratch.Value()}, Config: l.o.Config, RunID: runID, Queue: l.queue, Metrics: l.metrics, Logger: l.log, Audit: l.base.Audit,
	})
	api, err := portal.New(portal.Options{
		Kit: kit, Store: l.ledger, Catalog: l.templates, Results: l.driver, Machine: l.machine, Rate: l.o.Rate, GroupAge: l.o.GroupAge,
		Adopter: &portal.Adopter{
			Client: l.base.Client, Layout: l.base.Layout, Sealer: l.base.Env.States.Sealer, Trusted: l.base.BuiltIn != nil || l.o.InClear, Known: l.knownNames(),
		},
	})
	if err != nil {
		return nil, nil, err
	}
	forward.Own = api
	forward.View = l.ledger.View
	forward.Refuse = kit.Guard.AllowLogin
	return portal.NewForward(forward), api, nil
}

// findUsers returns the instances of a module that a caller may see, and the number of the others.
func (l *platform) findUsers(ctx context.Context, g access.Grant, module string) ([]usage.UsedBy, int, error) {
	v, err := l.ledger.View(ctx)
	if err != nil || v.Document == nil {
		return nil, 0, cmp.Or(err, lifecycle.ErrNoLeader)
	}
	seen, others := portal.FindUsers(v.Document, g, l.o.GroupAge, module)
	return seen, others, nil
}

// peers returns the transport to other replicas: it verifies certificates, and uses no proxy.
func (l *platform) peers() (http.RoundTripper, error) {
	out := l.base.Env.Transport
	out.Insecure = false
	out.Direct = true
	out.Dial = nil
	return httpserve.Transport(out)
}

func (l *platform) knownNames() template.Known {
	var k template.Known
	for _, c := range l.o.Credentials {
		k.Credentials = append(k.Credentials, c.Name)
	}
	for name := range l.o.Config {
		k.Config = append(k.Config, name)
	}
	return k
}

// ledgerRepository is the first repository of the ledger, from which readers find the later ones.
func (l *platform) ledgerRepository() string {
	return l.base.Client.Host() + "/" + l.base.Layout.Ledger(1)
}

// listening sets where runs reach the front-end, before any starts. ca: file of its own CA, or "".
func (l *platform) listening(at, ca string) error {
	public := l.base.Settings.PublicURL
	if public == "" && l.base.Settings.Hostname != "" && ca == "" && strings.HasPrefix(at, "https:") { // the certificate is for that name
		u, err := url.Parse(at)
		if err != nil {
			return err
		}
		u.Host = l.base.Settings.Hostname
		if !strings.Contains(l.base.Settings.Hostname, ":") && u.Port() != "" {
			u.Host += ":" + u.Port()
		}
		public = u.String()
	}
	public = cmp.Or(public, at)
	u, err := url.Parse(public)
	if err != nil {
		return err
	}
	l.at = sandbox.Server{URL: strings.TrimSuffix(public, "/"), Host: u.Host, Mirror: u.Scheme == "https"}
	if l.base.Settings.Hostname != "" {
		l.at.Host = l.base.Settings.Hostname
	}
	if ca != "" {
		l.at.CA, err = os.ReadFile(ca)
	}
	return err
}

// isRunOver reports whether a run, named ID/N/ATTEMPT, is known here to have ended.
func (l *platform) isRunOver(name string) bool {
	part := strings.Split(name, "/")
	if l.o.Role == settings.RolePortal || len(part) != 3 {
		return false
	}
	n, err1 := strconv.Atoi(part[1])
	attempt, err2 := strconv.Atoi(part[2])
	view, err := l.ledger.View(context.Background()) // from memory
	if err1 != nil || err2 != nil || err != nil || view.Document == nil {
		return false
	}
	rec := view.Document.Records[part[0]]
	return rec != nil && rec.HasEnded(n, attempt)
}

// endTime is how long to wait for the end of runs that end with the server.
const endTime = 10 * time.Second

// serveBackground does all background work until ctx ends. Then another replica can lead; runs go
// on, unless the executor is set to end them.
func (l *platform) serveBackground(ctx context.Context) {
	var running sync.WaitGroup
	begin := func(name string, work func(context.Context) error) {
		running.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				l.log.Error("instances: "+name+" ended", "error", err)
			}
		})
	}
	if l.socket != nil {
		begin("the socket of runs", l.answerRuns)
	}
	if l.templates != nil {
		begin("templates", l.templates.Run)
	}
	begin("ledger", l.ledger.Run)
	if l.driver != nil {
		begin("driver", l.driver.Run)
	}
	if l.queue != nil {
		running.Go(func() { l.queue.Run(ctx) })
	}
	running.Wait()
	if l.executor != nil && l.o.Executor.Ends {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		if err := localexec.KillAll(ending, l.executor); err != nil {
			l.log.Error("runs did not stop with the server", "error", err)
		}
	}
}

// childOrder returns what the child of an attempt needs beside the spec.
func (l *platform) childOrder(ctx context.Context, s run.Attempt) (sandbox.Order, error) {
	o := sandbox.Order{StateKeys: l.base.Env.Getenv("OKARA_STATE_KEYS"), Server: l.at, AllowEncryption: s.Remote != nil && l.base.Settings.Cloud.TFE.AllowEncryption, Prices: l.o.Prices}
	var err error
	if o.Server.Token, err = l.guard.NewRunToken(access.RunToken{
		Run: fmt.Sprintf("%s/%d/%d", s.Ref.ID, s.Ref.N, s.Ref.Attempt), Scopes: l.readScopes(s), Limit: s.Limits.Timeout,
	}); err != nil {
		return o, err
	}
	o.Registry, err = l.registryAccess(ctx, s)
	return o, err
}

func (l *platform) readScopes(s run.Attempt) []rights.Scope {
	scopes := []rights.Scope{
		{Action: rights.Read, Kind: addr.KindProvider, Glob: rights.Everything}, {Action: rights.Read, Kind: addr.KindMirror, Glob: rights.Everything},
	}
	globs := l.o.Executor.Reads
	if s.Remote != nil { // its own modules are uploaded; which others it may read is set by the administrator
		scopes = append(scopes, remoteScopes(s)...)
	} else if len(globs) == 0 {
		namespace, _, _ := strings.Cut(s.Source.Module, "/")
		globs = []string{namespace + "/**"}
	}
	for _, glob := range globs {
		scopes = append(scopes, rights.Scope{Action: rights.Read, Kind: addr.KindModule, Glob: glob})
	}
	return scopes
}

// afterLimit is how long a child may take after its time limit to end the tool and repeat writes.
const afterLimit = time.Hour

// registryAccess returns how the child reaches the registry: the built-in one through the
// socket, any other one with the credential of this server.
func (l *platform) registryAccess(ctx context.Context, s run.Attempt) (sandbox.Registry, error) {
	host, repository, _ := strings.Cut(s.Repository, "/")
	out := sandbox.Registry{Prefix: host, PlainHTTP: l.base.Env.OCI.PlainHTTP}
	if l.base.Layout.Prefix != "" {
		out.Prefix += "/" + l.base.Layout.Prefix
	}
	if l.socket != nil {
		token, err := l.socket.socketToken(repository, time.Now().Add(s.Limits.Timeout+afterLimit))
		out.Socket = l.socketFile()
		out.Token = token
		out.PlainHTTP = true
		out.BuiltIn = true
		return out, err
	}
	t := l.base.Env.Transport
	out.ClientCert = t.ClientCert
	out.ClientKey = t.ClientKey
	out.CertDirs = slices.Clone(t.CertDirs)
	out.Insecure = t.Insecure
	files := []*string{&out.ClientCert, &out.ClientKey} // children run in another folder
	for i := range out.CertDirs {
		files = append(files, &out.CertDirs[i])
	}
	for _, file := range files {
		if *file == "" {
			continue
		}
		var err error
		if *file, err = filepath.Abs(*file); err != nil {
			return out, err
		}
	}
	if file := t.CAFile; file != "" {
		ca, err := os.ReadFile(file)
		if err != nil {
			return out, err
		}
		out.CA = ca
	}
	if l.base.Env.OCI.Credential == nil {
		return out, nil
	}
	c, err := l.base.Env.OCI.Credential(ctx, host, repository)
	if err != nil {
		return out, err
	}
	if c.IdentityToken != "" {
		return out, fmt.Errorf("the credential for %s is an identity token, which runs cannot use\nhint: set a user and a password", host)
	}
	out.Username = c.Username
	out.Password = c.Password
	out.Token = c.RegistryToken
	return out, nil
}

func (l *platform) localOptions() localexec.LocalOptions {
	e := l.o.Executor
	o := localexec.LocalOptions{
		Storage: l.storage, Program: e.Program, Isolation: e.Isolation, Wrap: e.Wrap, Show: e.Show,
		Processes: e.Processes, Packages: e.Packages.Value(), Memory: e.Memory.Value(), CPUs: e.CPUs, Only: l.base.BuiltIn != nil, Getenv: l.base.Env.Getenv, Logger: l.log,
		Credentials: map[string]localexec.Credential{}, Order: l.childOrder,
		Instance: func(_ context.Context, s run.Attempt) (records.InstanceRepo, error) {
			r, err := l.repo(s)
			return records.InstanceRepo{Repo: r, Sealer: l.base.Env.States.Sealer}, err
		},
		State: func(_ context.Context, s run.Attempt) (*statebackend.Store, error) {
			r, err := l.repo(s)
			if err != nil {
				return nil, err
			}
			return statebackend.New(r, l.base.Env.States), nil
		},
	}
	for _, uid := range e.Users {
		o.Users = append(o.Users, localexec.User{UID: uid, GID: uid})
	}
	for _, c := range l.o.Credentials {
		o.Credentials[c.Name] = localexec.Credential{EnvFrom: c.EnvFrom, Files: c.Files, Command: c.Command}
	}
	return o
}

func (l *platform) repo(s run.Attempt) (*oci.Repo, error) {
	_, repository, _ := strings.Cut(s.Repository, "/")
	return l.base.Client.Repo(repository)
}

// keptIdentity returns which parts of an identity a session keeps for quotas and templates.
func (l *platform) keptIdentity() access.Kept {
	k := access.Kept{Claims: []string{"email", "email_verified", "preferred_username"}} // by which others know a person
	for _, q := range l.quotas {
		k.Groups = append(k.Groups, q.Groups...)
	}
	if l.templates != nil {
		portal.KeepForTemplates(&k, l.templates.All())
	}
	return k
}
