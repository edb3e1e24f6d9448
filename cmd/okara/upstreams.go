// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const internalHelp = `An origin may refer to other hosts: in a redirect, as the address of a package, as the
git repository of a module. Such a host is contacted only if its address is public.
Hosts on the command line or in the depot file are always allowed, and --allow-internal
allows more.`

// upstreams adds access to third-party hosts to registries. An origin's answers must not
// lead to hosts that only this machine or network can reach.
type upstreams struct {
	reg     *cli.Registries
	allowed []string // --allow-internal

	once   sync.Once // for the fields below
	guard  *upstream.Guard
	beyond http.RoundTripper // reaches only hosts that guard allows
	failed error

	// Origins are made once for each auth block in a process, so that conditional requests
	// and rate limits are shared by all runs.
	mu   sync.Mutex // guards made
	made map[supply.Auth]supply.Origins
}

func addAllowInternal(f *pflag.FlagSet, to *[]string) {
	f.StringArrayVar(to, "allow-internal", nil, "`HOST[:PORT]` at a private or loopback address that origins may name (repeatable)")
}

func (up *upstreams) openTransport() error {
	up.once.Do(func() {
		for _, host := range up.allowed {
			if host == "" || strings.ContainsAny(host, "/*") {
				up.failed = cli.UsageError("--allow-internal: %q is not HOST or HOST:PORT", host)
				return
			}
		}
		up.guard = upstream.NewGuard(slices.Concat(up.allowed, upstream.Proxies(up.reg.Getenv)))
		opts := up.reg.TransportOptions()
		opts.Dial = up.guard.Dial
		if up.beyond, up.failed = httpserve.Transport(opts); up.failed != nil {
			up.failed = &cli.ExitError{Code: cli.ExitUsage, Err: up.failed}
			return
		}
		upstream.InstallGit(up.guard.Client(up.beyond))
	})
	return up.failed
}

// upstreamClient sends requests to third-party registries, with the tokens that tofu and
// terraform would send there. named are hosts that the user has named.
func (up *upstreams) upstreamClient(named ...string) (*upstream.Client, error) {
	if err := up.openTransport(); err != nil {
		return nil, err
	}
	up.guard.Named(named...)
	return &upstream.Client{HTTP: up.guard.Client(up.beyond), Token: up.reg.HostToken, UserAgent: up.reg.UserAgent()}, nil
}

// openOrigin is OpenRepo for a repository that may be named by an origin.
func (up *upstreams) openOrigin(reference string) (*oci.Repo, error) {
	o, err := up.reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	if err := up.openTransport(); err != nil {
		return nil, err
	}
	o.Transport = up.guard.Transport(up.beyond)
	return oci.OpenRepo(reference, o)
}

// origins returns the access to origins with the credential of an auth block; the zero
// value means none.
func (up *upstreams) origins(auth supply.Auth) (supply.Origins, error) {
	up.mu.Lock()
	defer up.mu.Unlock()
	if from, ok := up.made[auth]; ok {
		return from, nil
	}
	from, err := up.newOrigins(auth)
	if err != nil {
		return supply.Origins{}, err
	}
	if up.made == nil {
		up.made = map[supply.Auth]supply.Origins{}
	}
	up.made[auth] = from
	return from, nil
}

func (up *upstreams) newOrigins(auth supply.Auth) (supply.Origins, error) {
	token, api, err := up.authToken(auth)
	if err != nil {
		return supply.Origins{}, err
	}
	client, err := up.upstreamClient()
	if err != nil {
		return supply.Origins{}, err
	}
	if api != nil {
		up.guard.Named(netaddr.HostPort(api))
	}
	client.Token = token
	return supply.Origins{
		Client: client, Git: &upstream.Git{Token: token, Guard: up.guard}, GitHub: upstream.NewGitHub(client.HTTP, api, token), Open: up.openOrigin,
		Provider: func(origin string, _ addr.Provider) (depot.Source, error) {
			if origin == "" {
				return &upstream.Registry{Client: client}, nil
			}
			return up.providerSource(origin, "")
		},
		Registry: func(host string, _ addr.Module) (*upstream.ModuleRegistry, error) {
			return &upstream.ModuleRegistry{Client: client, Host: host}, nil
		},
	}, nil
}

// authToken returns the token function of an auth block: its token for its host, or for one
// owner on it (github.com/acme), else the tokens of the CLI configuration. A missing secret
// is an error immediately.
func (up *upstreams) authToken(auth supply.Auth) (upstream.TokenFunc, *url.URL, error) {
	if auth == (supply.Auth{}) {
		return func(key string) string {
			host, _, _ := strings.Cut(key, "/")
			return up.reg.HostToken(host)
		}, nil, nil
	}
	var api *url.URL
	var err error
	if auth.APIURL != "" {
		if api, err = url.Parse(auth.APIURL); err != nil {
			return nil, nil, fmt.Errorf("api_url: %w", err)
		}
	}
	secret, err := up.authSecret(auth, api)
	if err != nil {
		return nil, nil, err
	}
	return func(key string) string {
		host, _, _ := strings.Cut(key, "/")
		if key == auth.Host || host == auth.Host || api != nil && host == api.Hostname() {
			return secret()
		}
		return up.reg.HostToken(host)
	}, api, nil
}

// authSecret returns a function for the current token of an auth block. It fails immediately
// if there is none; a token of a GitHub App is renewed later.
func (up *upstreams) authSecret(auth supply.Auth, api *url.URL) (func() string, error) {
	if auth.AppID == 0 {
		token, err := readSecret(up.reg.Getenv, auth.TokenEnv, auth.File)
		return func() string { return token }, err
	}
	key, err := appKey(auth)
	if err != nil {
		return nil, err
	}
	var named []string
	if api != nil {
		named = append(named, netaddr.HostPort(api))
	}
	client, err := up.upstreamClient(named...)
	if err != nil {
		return nil, err
	}
	gh := &upstream.App{HTTP: client.HTTP, API: api, ID: auth.AppID, Installation: auth.Installation, Key: key}
	if _, err := gh.Token(context.Background()); err != nil {
		return nil, err
	}
	return func() string {
		token, err := gh.Token(context.Background())
		if err != nil {
			up.reg.WarnLogger().Warn("depot: continuing without a token", "error", err)
		}
		return token
	}, nil
}

// providerSource returns the source that the text names, see sourceHelp. own is the host
// name of the registry's own providers.
func (up *upstreams) providerSource(from, own string) (depot.Source, error) {
	src, err := supply.OpenSource(from, supply.SourceOptions{Upstream: up.upstreamClient, Registry: up.reg.ClientOf, Own: own})
	if e, ok := errors.AsType[*supply.SourceError](err); ok {
		err = cli.UsageError("%w", err)
		if !e.URL {
			err = cli.WithHint(err, "run the command with --help for the supported forms")
		}
	}
	return src, err
}
