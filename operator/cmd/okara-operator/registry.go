// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
)

// registrySite is the registry that is filled, and how it and the origins are reached.
type registrySite struct {
	registry  string
	fronts    []string
	caFile    string
	plainHTTP bool
	allowed   []string
	scratch   string
}

func (s *registrySite) add(f *pflag.FlagSet) {
	f.StringVar(&s.registry, "registry", "", "`HOST[:PORT][/PREFIX]` of the registry that the objects fill")
	f.StringArrayVar(&s.fronts, "front-end", nil, "`HOST[:PORT]` of an okara serve over that registry, which is no origin (repeatable)")
	f.StringVar(&s.caFile, "ca-file", "", "PEM `FILE` with certificates to trust besides the system's")
	f.BoolVar(&s.plainHTTP, "plain-http", false, "reach the registry without TLS")
	f.StringArrayVar(&s.allowed, "allow-origin", nil, "`HOST[:PORT]` at a private or loopback address that objects may name as origin (repeatable)")
	f.StringVar(&s.scratch, "temp-dir", "", "`FOLDER` for temporary files (default the system's)")
}

const userAgent = "okara-operator"

// open returns what the controllers need of the registry and of the origins.
func (s *registrySite) open(log *slog.Logger) (registryctl.Options, error) {
	if s.registry == "" {
		return registryctl.Options{}, errors.New("no registry given: name it with --registry HOST[/PREFIX]")
	}
	host, prefix, err := addr.SplitRegistry(s.registry)
	if err != nil {
		return registryctl.Options{}, err
	}
	layout := addr.Layout{Prefix: prefix}
	if err := layout.Validate(); err != nil {
		return registryctl.Options{}, err
	}
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: s.caFile})
	if err != nil {
		return registryctl.Options{}, err
	}
	own := credentials.New(credentials.Options{Getenv: os.Getenv, Logger: log})
	c, err := oci.New(host, oci.Options{
		Credential: own.Credential, Rejected: own.Rejected, Transport: transport, PlainHTTP: s.plainHTTP, UserAgent: userAgent, Logger: log,
	})
	if err != nil {
		return registryctl.Options{}, err
	}
	tenants, err := s.tenants(host, layout)
	if err != nil {
		return registryctl.Options{}, err
	}
	return registryctl.Options{
		Depot: depot.New(depot.Options{Client: c, Layout: layout, TempDir: s.scratch}),
		Origins: func(ctx context.Context, secret supply.TenantSecret, may func(addr.Item) bool) (supply.Origins, error) {
			return tenants.Origins(ctx, secret, may)
		},
	}, nil
}

// tenants reads the origins, over a transport that reaches none of this network's
// addresses but those that are allowed.
func (s *registrySite) tenants(host string, layout addr.Layout) (*supply.Tenants, error) {
	guard := upstream.NewGuard(slices.Concat(s.allowed, upstream.Proxies(os.Getenv)))
	var transport http.RoundTripper
	transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: s.caFile, Dial: guard.Dial})
	if err != nil {
		return nil, err
	}
	return supply.NewTenants(supply.TenantsOptions{
		Guard: guard, Transport: transport, UserAgent: userAgent, Registry: host, Layout: layout, FrontEnds: s.fronts,
	}), nil
}
