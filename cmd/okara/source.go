// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const sourceHelp = `Where providers come from:
  registry              the provider's own registry, found by its host name
  HOST                  another registry that serves the same addresses
  https://HOST/PATH/    a network mirror, or the provider protocol if PATH ends
                        in v1/providers, as okara's /origin/HOSTNAME/v1/providers/
  DIR                   a filesystem mirror, as "tofu providers mirror" writes it
  oci://HOST[/PREFIX]   the mirror repositories of another OCI registry`

// providerSource returns the source that the text names, see sourceHelp. own is
// the host name under which the registry's own providers are addressed.
func (a *app) providerSource(from, own string) (depot.Source, error) {
	if where, ok := strings.CutPrefix(from, "oci://"); ok {
		host, prefix, err := addr.SplitRegistry(where)
		if err != nil {
			return nil, err
		}
		o, err := a.ociOptions()
		if err != nil {
			return nil, err
		}
		client, err := oci.New(host, o)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		return repositorySource(client, addr.Layout{Prefix: prefix}, own), nil
	}
	if strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://") {
		u, err := url.Parse(from)
		if err != nil || u.Host == "" {
			return nil, usageError("%q is not the address of a network mirror", from)
		}
		client, err := a.upstreamClient(withPort(u))
		if err != nil {
			return nil, err
		}
		return httpSource(client, u), nil
	}
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return &upstream.FilesystemMirror{FS: os.DirFS(from)}, nil
	}
	client, err := a.upstreamClient()
	if err != nil {
		return nil, err
	}
	if from == "registry" {
		return &upstream.Registry{Client: client}, nil
	}
	if from == "" || strings.ContainsAny(from, `/\ `) {
		return nil, withHint(usageError("%q is no source of providers", from), "run the command with --help for the forms it takes")
	}
	a.origins.guard.Named(from)
	return &upstream.Registry{Client: client, Host: from}, nil
}

// httpSource reads the provider protocol where the address is one of it, else a
// network mirror.
func httpSource(client *upstream.Client, u *url.URL) depot.Source {
	if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/providers") {
		return &upstream.Registry{Client: client, Base: u}
	}
	return &upstream.NetworkMirror{Client: client, Base: u}
}

// repositorySource reads providers from the repositories of a layout.
func repositorySource(client *oci.Client, l addr.Layout, own string) depot.Source {
	return upstream.NewRepository(func(p addr.Provider) (*oci.Repo, error) { return client.Repo(repositoryOf(l, p, own)) })
}

// repositoryOf returns where the registry keeps a provider.
func repositoryOf(l addr.Layout, p addr.Provider, own string) string {
	if p.Hostname == "" || p.Hostname == own {
		return l.Provider(p)
	}
	return l.MirrorOf(p)
}

// hostToken returns the API token for a host, "" for none.
func (a *app) hostToken(host string) string {
	c, err := a.credentials().Credential(context.Background(), host, "")
	if err != nil {
		return ""
	}
	return c.RegistryToken
}
