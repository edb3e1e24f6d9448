// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const internalHelp = `An origin may name other hosts: in a redirect, as the address of a package, as the
git repository of a module. Such a host is asked only if its address is public.
Hosts that the command line or the depot file names are asked in any case, and
--allow-internal names more.`

// origins is the way to others' hosts. What an origin answers must not lead to
// hosts that only this machine or network can reach.
type origins struct {
	allowed []string // --allow-internal

	once      sync.Once // for the fields below
	guard     *upstream.Guard
	transport http.RoundTripper
	err       error
}

func addAllowInternal(f *pflag.FlagSet, to *[]string) {
	f.StringArrayVar(to, "allow-internal", nil, "`HOST[:PORT]` at a private or loopback address that origins may name (repeatable)")
}

// open makes the guard and the transport, once for each process.
func (o *origins) open(a *app) error {
	o.once.Do(func() {
		for _, host := range o.allowed {
			if host == "" || strings.ContainsAny(host, "/*") {
				o.err = usageError("--allow-internal: %q is not HOST or HOST:PORT", host)
				return
			}
		}
		o.guard = upstream.NewGuard(slices.Concat(o.allowed, upstream.Proxies(a.getenv)))
		opts := a.transportOptions()
		opts.Dial = o.guard.Dial
		if o.transport, o.err = httpserve.Transport(opts); o.err != nil {
			o.err = &exitError{code: exitUsage, err: o.err}
			return
		}
		upstream.InstallGit(o.guard.Client(o.transport))
	})
	return o.err
}

// upstreamClient sends requests to others' registries, with the tokens that
// tofu and terraform would send there. named are hosts that the user has named.
func (a *app) upstreamClient(named ...string) (*upstream.Client, error) {
	if err := a.origins.open(a); err != nil {
		return nil, err
	}
	a.origins.guard.Named(named...)
	return &upstream.Client{HTTP: a.origins.guard.Client(a.origins.transport), Token: a.hostToken, UserAgent: a.userAgent()}, nil
}

// git reads repositories, with these tokens.
func (a *app) git(token upstream.TokenFunc) *upstream.Git {
	return &upstream.Git{Token: token, Guard: a.origins.guard}
}

// openOrigin is openRepo of a repository that an origin may have named.
func (a *app) openOrigin(reference string) (*oci.Repo, error) {
	o, err := a.ociOptions()
	if err != nil {
		return nil, err
	}
	if err := a.origins.open(a); err != nil {
		return nil, err
	}
	o.Transport = a.origins.guard.Transport(a.origins.transport)
	return oci.OpenRepo(reference, o)
}

// namedBy are the hosts that a depot file names.
func namedBy(set *depot.Set) []string {
	var hosts []string
	for _, e := range set.Modules {
		hosts = append(hosts, e.Source.Host)
		if u := e.Source.Location.URL; u != nil {
			hosts = append(hosts, upstream.HostPort(u))
		}
	}
	for _, e := range set.Providers {
		hosts = append(hosts, e.Address.Hostname)
	}
	return hosts
}
