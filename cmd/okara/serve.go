// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/sample"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/supply"
)

const serveLong = `Serve modules, providers and state to stock tofu and terraform.

One port serves the module and provider registry protocols, the network
mirror, the http state backend, and, unless --registry names another one, the
OCI registry that everything is stored in.

A flag may also be given as a variable: OKARA_SERVE_TOKEN_FILE is --token-file. A flag
takes precedence over its variable, and that over the configuration file.

On a loopback address, anyone may do anything. On any other address okara
requires --token-file, --anonymous-read, --anonymous-write or --pass-through.

Tokens, rules and the keys of links are reloaded when their files change, and on SIGHUP.
Everything else takes effect at the next start.

--demo starts a server for trying out okara: sample modules, a provider, states and
templates, and two users whose tokens it prints. Without a token nothing can be read or
changed. All of it is deleted when the server stops. If tofu or terraform is installed,
the templates can be launched; with --listen beyond loopback, only in a sandbox.

The file of --config has these settings and more: rules for tokens of CI systems
and users, the layout of the registry, and github blocks, which publish modules
from webhooks of GitHub.`

const serveExample = `  okara serve
  okara serve --listen :8443 --tls-cert cert.pem --tls-key key.pem --token-file tokens
  okara serve --tls-self-signed --registry registry.example.com/platform
  okara serve --config okara.hcl
  okara serve --config okara.hcl --check
  okara serve --demo
  okara serve --demo --listen :8080   # in a container`

func newServe(up *upstreams) *cobra.Command {
	var config string
	var check, demo bool
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve modules, providers and state from an OCI registry",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := up.reg.Registry
			if demo {
				return serveDemo(cmd.Context(), up, cmd.Flags())
			}
			if err := fromEnvironment(up.reg.Getenv, "OKARA_SERVE_", cmd.Flags()); err != nil {
				return err
			}
			read := func() (*server.Settings, error) { return serveSettings(up, given, cmd.Flags(), config) }
			s, err := read()
			if err != nil {
				return err
			}
			env, err := serveEnv(up, s)
			if err != nil {
				return err
			}
			if check {
				return checkServer(cmd.Context(), up.reg.App, config, s, env)
			}
			return runServer(cmd.Context(), s, env, read)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "HCL `FILE` with these settings and the access rules")
	cmd.Flags().BoolVar(&check, "check", false, "check the settings and the files that they name, and exit")
	cmd.Flags().BoolVar(&demo, "demo", false, "serve sample data, and keep nothing")
	addServeFlags(cmd.Flags(), server.Defaults())
	return cmd
}

// runServer serves until ctx ends. On SIGHUP it reads rights and keys again.
func runServer(ctx context.Context, s *server.Settings, env server.Env, again func() (*server.Settings, error)) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	env.Again = again
	env.Reload = hangup
	return server.Run(ctx, s, env)
}

func serveDemo(ctx context.Context, up *upstreams, given *pflag.FlagSet) error {
	for _, own := range []string{"config", "check", "storage", "registry", "token-file", "anonymous-read", "anonymous-write", "pass-through", "depot", "no-ui", "tls-cert", "tls-key", "tls-self-signed", "metrics-listen"} {
		if given.Changed(own) {
			return cli.UsageError("--demo cannot be combined with --%s", own)
		}
	}
	dir, done, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	listen, err := given.GetString("listen")
	if err != nil {
		return err
	}
	o := sampleOptions(ctx, up)
	if host, _, err := net.SplitHostPort(listen); err == nil && !netaddr.IsLoopback(host) {
		up.reg.Note("warning: other machines can reach the demo, over http; they can do nothing without one of its tokens")
		if o.Isolation == "none" {
			o = sample.Options{}
		}
	}
	demo, err := sample.Write(dir, o)
	if err != nil {
		return err
	}
	read := func() (*server.Settings, error) { return serveSettings(up, "", given, demo.Config) }
	s, err := read()
	if err != nil {
		return err
	}
	env, err := serveEnv(up, s)
	if err != nil {
		return err
	}
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	var filling sync.WaitGroup
	var failed error                         // why the sample could not be filled
	env.Ready = func(r server.Ready) error { // the server answers once this function has returned
		filling.Go(func() {
			if failed = demo.Fill(serving, r.URL, nil); failed == nil {
				failed = announceDemo(up.reg.App, r.URL, o.Tool, demo)
			}
			if failed != nil {
				end(failed)
			}
		})
		return nil
	}
	err = runServer(serving, s, env, read)
	end(nil)
	filling.Wait()
	if err == nil && ctx.Err() == nil {
		return failed
	}
	return err
}

func sampleOptions(ctx context.Context, up *upstreams) sample.Options {
	for _, tool := range []string{cmp.Or(up.reg.Getenv("OKARA_TOFU"), "tofu"), cmp.Or(up.reg.Getenv("OKARA_TERRAFORM"), "terraform")} {
		path, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		o := sample.Options{Tool: path}
		if exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").Run() != nil {
			o.Isolation = "none"
			up.reg.Note("warning: bubblewrap does not work here, so launches run as your user, without a sandbox")
		}
		return o
	}
	return sample.Options{}
}

func announceDemo(a *cli.App, url, tool string, s *sample.Server) error {
	type person struct {
		Name  string `json:"name"`
		Role  string `json:"role"`
		Token string `json:"token"`
	}
	result := struct {
		URL    string   `json:"url"`
		People []person `json:"people"`
	}{URL: url}
	var b strings.Builder
	fmt.Fprintf(&b, "Demo at %s/ui/ until this command ends. Log in with a token:\n", url)
	for _, p := range s.People {
		result.People = append(result.People, person(p))
		fmt.Fprintf(&b, "\n%s, %s\n  %s\n", p.Name, p.Role, p.Token)
	}
	if tool == "" {
		a.Note("neither tofu nor terraform is on the PATH, so there are no templates to launch")
	}
	noteNext(a, server.Ready{URL: url})
	return a.PrintResult(result, strings.TrimRight(b.String(), "\n"))
}

// noteNext prints the command that configures the tools for a server, which needs a name on this machine.
func noteNext(a *cli.App, r server.Ready) {
	flags, what := "", ""
	if u, err := url.Parse(r.URL); err == nil && netaddr.IsLoopback(u.Hostname()) {
		r.Hostname = cmp.Or(r.Hostname, "okara.test")
	}
	if r.Hostname != "" {
		flags = " --hostname " + r.Hostname
	}
	if r.Restricted {
		flags, what = flags+" --token-file FILE", " (FILE has your token)"
	}
	a.Note("next: okara cli-config %s%s --write okara.tfrc && export TF_CLI_CONFIG_FILE=$PWD/okara.tfrc%s", r.URL, flags, what)
}

// serveSettings reads the file of --config and overrides it with flags and variables, the
// registry among them.
func serveSettings(up *upstreams, registry string, given *pflag.FlagSet, config string) (*server.Settings, error) {
	s := server.Defaults()
	s.Extension = newExtension()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addServeFlags(flags, s)
	var errs []error
	given.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if flags.Lookup(f.Name) != nil {
				errs = append(errs, flags.Set(f.Name, value))
			}
		}
	})
	if err := errors.Join(append(errs, readBelow(flags, config, s))...); err != nil {
		return nil, err
	}
	s.Registry = cmp.Or(registry, s.Registry)
	s.Storage = cmp.Or(s.Storage, dataDir(up.reg.Getenv))
	return s, nil
}

func addServeFlags(fl *pflag.FlagSet, s *server.Settings) {
	fl.StringVar(&s.Listen, "listen", s.Listen, "`ADDRESS` to listen on")
	fl.StringVar(&s.Metrics, "metrics-listen", "", "another `ADDRESS` for /metrics, which is then served only there")
	fl.StringVar(&s.Storage, "storage", "", "`DIR` for the built-in registry, the link key and the local CA (default $XDG_DATA_HOME/okara)")
	fl.StringVar(&s.Hostname, "hostname", "", "public `HOST` of this server; /mirror/ serves its own providers under it")
	fl.StringVar(&s.BasePath, "base-path", "", "`PATH` under which a proxy serves okara")
	fl.StringVar(&s.TLS.Cert, "tls-cert", "", "PEM `FILE` of the server certificate")
	fl.StringVar(&s.TLS.Key, "tls-key", "", "PEM `FILE` of its key")
	fl.BoolVar(&s.TLS.SelfSigned, "tls-self-signed", false, "create a certificate with a local CA kept in --storage")
	fl.StringVar(&s.TokenFile, "token-file", "", "`FILE` of tokens and their scopes, one per line")
	fl.BoolVar(&s.AnonymousRead, "anonymous-read", false, "let anonymous callers read modules and providers")
	fl.BoolVar(&s.AnonymousWrite, "anonymous-write", false, "give anonymous callers all rights")
	fl.BoolVar(&s.NoUI, "no-ui", false, "do not serve web pages under /ui/")
	fl.BoolVar(&s.Pass, "pass-through", false, "use the caller's own registry credential, which okara auth token prints, as the token")
	fl.StringVar(&s.AuditLog, "audit-log", "", "write one JSON line per decision and change to `FILE`, - for stderr")
	fl.StringVar(&s.LogFormat, "log-format", s.LogFormat, "format of the log on stderr: `text|json`")
	fl.StringVar(&s.Depot, "depot", "", "depot `FILE` to run on its interval, one replica at a time")
	addAllowInternal(fl, &s.AllowInternal)
	fl.StringArrayVar(&s.UsedBy, "used-by", nil, "lock `FILE` or folder of lock files whose versions the depot's retention keeps (repeatable)")
	fl.StringVar(&s.Archives.Redirect, "archive-redirect", s.Archives.Redirect, "send archive downloads to the registry's own storage: `auto|never`")
	fl.Var(&s.Archives.TTL, "archive-ttl", "how long an archive link is valid")
	fl.Var(&s.Cache.TagTTL, "tag-ttl", "how long the tag of a module version is assumed not to have moved")
	fl.Var(&s.Cache.Blobs, "cache-blobs", "keep archives of --registry on disk, up to `SIZE` such as 20GiB; the least recently used go first")
	fl.StringVar(&s.Cache.Dir, "cache-dir", "", "`DIR` for cached archives (default blobs in --storage)")
	fl.Var(&s.Grace, "grace", "how long to keep accepting requests after a signal, so load balancers notice; on a loopback address only if set")
	fl.Lookup("grace").DefValue = "5s"
	fl.Var(&s.Drain, "drain", "how long running downloads may continue after --grace")
	fl.Var(&s.GC.Interval, "gc-interval", "how often the built-in registry frees the space of unreferenced content, 0: never")
	fl.Var(&s.GC.MinAge, "gc-min-age", "minimum age of the content it frees, at least 1h")
	fl.Var(&s.GC.Reserve, "gc-reserve", "disk space that the built-in registry reserves for locks and small states when full, 0: none")
}

// readBelow reads the file of --config, if there is one. Flags given on the command line are
// then applied again, so that they take precedence.
func readBelow(flags *pflag.FlagSet, config string, s *server.Settings) error {
	if config == "" {
		return nil
	}
	given := map[*pflag.Flag]string{}
	lists := map[pflag.SliceValue][]string{}
	flags.Visit(func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			lists[list] = slices.Clone(list.GetSlice())
		} else {
			given[f] = f.Value.String()
		}
	})
	if err := s.Read(config); err != nil {
		return err
	}
	if flags.Changed("tls-cert") || flags.Changed("tls-self-signed") {
		*s.TLS = server.TLS{} // one certificate, not parts of two
	}
	var errs []error
	for f, text := range given {
		errs = append(errs, f.Value.Set(text))
	}
	for list, texts := range lists {
		errs = append(errs, list.Replace(texts))
	}
	return errors.Join(errs...)
}

// serveEnv is the environment of a server in this process. The variable OKARA_REGISTRY is
// for clients: it may name this very server.
func serveEnv(up *upstreams, s *server.Settings) (server.Env, error) {
	up.reg.Registry = s.Registry // the given credentials are for it
	up.allowed = s.AllowInternal
	o, err := up.reg.OCIOptions()
	if err != nil {
		return server.Env{}, err
	}
	kept, err := (&stateFlags{}).storeOptions(up.reg.App)
	if err != nil {
		return server.Env{}, err
	}
	log, err := serverLogger(up.reg.App, s.LogFormat)
	if err != nil {
		return server.Env{}, err
	}
	var requests *slog.Logger
	if up.reg.Debug {
		requests = log
	}
	ready := func(r server.Ready) error { return announceServer(up.reg.App, s.LogFormat == "text", r) }
	var repaired time.Time // a depot is run by one goroutine
	return server.Env{
		Process: server.Process{Version: up.reg.Version, Getenv: up.reg.Getenv, Stderr: up.reg.Err, Note: up.reg.Note, Ready: ready},
		Logs:    server.Logs{Log: log, Debug: requests, Tracer: up.reg.Tracer},
		Outside: server.Outside{OCI: o, Transport: up.reg.TransportOptions(), States: kept, HostToken: up.reg.HostToken},
		Supply: server.Supply{
			Secret:    func(variable, file string) (string, error) { return readSecret(up.reg.Getenv, variable, file) },
			CheckAuth: func(auth supply.Auth) error { return checkAuth(up.reg.Getenv, auth) },
			Syncer: func(set *supply.Set, d *depot.Depot, usedBy []string, uses *states.Uses) (*supply.Syncer, error) {
				f := depotFlags{usedBy: usedBy, repair: time.Since(repaired) > 24*time.Hour}
				if f.repair {
					repaired = time.Now()
				}
				return newSyncer(up, set, d, f, uses)
			},
			Origins: up.origins,
		},
	}, nil
}

func checkServer(ctx context.Context, a *cli.App, config string, s *server.Settings, env server.Env) error {
	if err := server.Check(s, env); err != nil {
		return err
	}
	if s.Extension != nil {
		if err := s.Extension.CheckTool(ctx, env); err != nil {
			return err
		}
	}
	result := struct {
		Config string `json:"config,omitempty"`
		Valid  bool   `json:"valid"`
	}{config, true}
	return a.PrintResult(result, cmp.Or(config, "the configuration")+" is valid")
}

func announceServer(a *cli.App, interactive bool, r server.Ready) error {
	result := struct {
		URL     string   `json:"url"`
		Storage string   `json:"storage"`
		CA      string   `json:"ca,omitempty"`
		Routes  []string `json:"routes"`
	}{r.URL, r.Storage, r.CA, r.Routes}
	if interactive {
		if r.Metrics != "" {
			a.Note("metrics: %s", r.Metrics)
		}
		a.Note("storage: %s", r.Storage)
		if r.CA != "" {
			a.Note("to trust this server: export SSL_CERT_FILE=%s", r.CA)
		}
		noteNext(a, r)
	}
	return a.PrintResult(result, "listening on "+r.URL)
}

// fromEnvironment sets flags that are not on the command line from variables of the same
// name.
func fromEnvironment(getenv func(string) string, prefix string, flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := getenv(name)
		if value == "" || f.Changed {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, cli.UsageError("%s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

func dataDir(getenv func(string) string) string {
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "okara")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "okara")
}

func serverLogger(a *cli.App, format string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	switch {
	case a.Debug:
		o.Level = slog.LevelDebug
	case a.Quiet:
		o.Level = slog.LevelError
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(a.Err, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Err, o)), nil
	}
	return nil, cli.UsageError("invalid log format %q: must be text or json", format)
}
