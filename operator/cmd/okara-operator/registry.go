// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/cloudlogin"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
)

// registrySite configures the registry to fill, and how it and the origins are reached.
type registrySite struct {
	registry  string
	fronts    []string
	caFile    string
	plainHTTP bool
	allowed   []string
	scratch   string
	scanner   registryctl.Scanner
}

func (s *registrySite) addTo(f *pflag.FlagSet) {
	f.StringVar(&s.registry, "registry", "", "`HOST[:PORT][/PREFIX]` of the registry that the objects fill")
	f.StringArrayVar(&s.fronts, "front-end", nil, "`HOST[:PORT]` of an okara serve for that registry, which must not be an origin (repeatable)")
	f.StringVar(&s.caFile, "ca-file", "", "PEM `FILE` with additional certificates to trust")
	f.BoolVar(&s.plainHTTP, "plain-http", false, "use plain HTTP for a registry that is not on loopback")
	f.StringArrayVar(&s.allowed, "allow-origin", nil, "`HOST[:PORT]` at a private or loopback address that objects may name as origin (repeatable)")
	f.StringVar(&s.scanner.Command, "scanner", "", "`COMMAND` that scans versions of objects with spec.scan: trivy, or one that writes SARIF to stdout")
	f.StringVar(&s.scanner.Database, "scan-database", "", "`FOLDER` with trivy's offline database")
	f.IntVar(&s.scanner.Jobs, "scan-jobs", 1, "`NUMBER` of objects that are scanned concurrently")
	f.StringVar(&s.scratch, "temp-dir", "", "`FOLDER` for temporary files (default the system's)")
}

func userAgent() string { return "okara-operator/" + buildinfo.Version() }

func (s *registrySite) check() error {
	if s.registry == "" {
		return usagef("no registry given: specify it with --registry HOST[:PORT][/PREFIX]")
	}
	if _, _, err := s.layout(); err != nil {
		return &usageError{err}
	}
	for _, f := range []struct {
		flag  string
		hosts []string
	}{{"front-end", s.fronts}, {"allow-origin", s.allowed}} {
		for _, host := range f.hosts {
			if !isHost(host) {
				return usagef("--%s %q is not HOST[:PORT]: use only the name, without https:// or a path", f.flag, host)
			}
		}
	}
	if s.scanner.Jobs < 1 {
		return usagef("--scan-jobs %d is less than 1", s.scanner.Jobs)
	}
	if s.scratch != "" {
		if info, err := os.Stat(s.scratch); err != nil || !info.IsDir() {
			return usagef("--temp-dir %q is not a folder: create it first", s.scratch)
		}
	}
	return nil
}

// layout splits the registry into its host and the layout of its paths.
func (s *registrySite) layout() (string, addr.Layout, error) {
	host, prefix, err := addr.SplitRegistry(s.registry)
	layout := addr.Layout{Prefix: prefix}
	if err == nil {
		err = layout.Validate()
	}
	return host, layout, err
}

// isHost reports whether a text is HOST or HOST:PORT.
func isHost(text string) bool {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if !isPort(port) {
			return false
		}
		host = h
	}
	return host != "" && !strings.ContainsAny(host, "/@?# ") && (!strings.Contains(host, ":") || net.ParseIP(strings.Trim(host, "[]")) != nil)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// reach is a client for the registry, with its host and layout.
type reach struct {
	client *oci.Client
	host   string
	layout addr.Layout
}

// registryConnect bounds a connection: with retry an unreachable registry is reported within ten
// seconds.
const registryConnect = 2500 * time.Millisecond

func newRetry() oci.Retry { return oci.Retry{MaxAttempts: 3, InitialBackoff: 500 * time.Millisecond} }

// newReach returns the client for the registry. It makes no request.
func (s *registrySite) newReach(log *slog.Logger) (*reach, error) {
	host, layout, err := s.layout()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: registryConnect, KeepAlive: 30 * time.Second}
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: s.caFile, Dial: dialer.DialContext})
	if err != nil {
		return nil, err
	}
	tagParts, err := depot.TagParts(os.Getenv)
	if err != nil {
		return nil, &usageError{err}
	}
	own := credentials.New(credentials.Options{
		Getenv: os.Getenv, Logger: log, Identity: cloudlogin.New(func() (http.RoundTripper, error) { return transport, nil }),
	})
	c, err := oci.New(host, oci.Options{
		Credential: own.Credential, Rejected: own.Rejected, Transport: transport, PlainHTTP: s.plainHTTP, UserAgent: userAgent(), Logger: log,
		TagParts: tagParts, Retry: newRetry(),
	})
	return &reach{client: c, host: host, layout: layout}, err
}

// openOptions returns the options that the controllers need for the registry and the origins.
func (s *registrySite) openOptions(r *reach) (registryctl.Options, error) {
	tenants, err := s.tenants(r.host, r.layout)
	if err != nil {
		return registryctl.Options{}, err
	}
	return registryctl.Options{
		Scanner: s.scanner,
		Depot:   depot.New(depot.Options{Client: r.client, Layout: r.layout, TempDir: s.scratch}),
		Origins: func(ctx context.Context, secret supply.TenantSecret, may func(addr.Item) bool) (supply.Origins, error) {
			return tenants.Origins(ctx, secret, may)
		},
	}, nil
}

// tenants returns the reader of origins, which connects to local addresses only if allowed.
func (s *registrySite) tenants(host string, layout addr.Layout) (*supply.Tenants, error) {
	guard := upstream.NewGuard(slices.Concat(s.allowed, upstream.Proxies(os.Getenv)))
	var transport http.RoundTripper
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: s.caFile, Dial: guard.Dial})
	if err != nil {
		return nil, err
	}
	return supply.NewTenants(supply.TenantsOptions{
		Guard: guard, Transport: transport, UserAgent: userAgent(), Registry: host, Layout: layout, FrontEnds: s.fronts,
	}), nil
}
