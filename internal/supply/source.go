// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// SourceError means that a text does not name a source of providers.
type SourceError struct {
	From string
	URL  bool // the address has the form of a mirror URL
}

func (e *SourceError) Error() string {
	if e.URL {
		return fmt.Sprintf("%q is not the address of a network mirror", e.From)
	}
	if strings.ContainsAny(e.From, `/\\`) && !strings.Contains(e.From, "://") {
		return fmt.Sprintf("folder %s does not exist", e.From)
	}
	return fmt.Sprintf("%q is not a source of providers", e.From)
}

// SourceOptions provides access to the sources that users name.
type SourceOptions struct {
	// Upstream returns a client of others' registries and mirrors, and of the hosts in named, from
	// the user's text.
	Upstream func(named ...string) (*upstream.Client, error)
	Registry func(host string) (*oci.Client, error) // to an OCI registry
	Own      string                                 // host name under which the registry's own providers are addressed
}

// OpenSource returns the source that a text names:
//
//	registry              the provider's own registry, found by its host name
//	HOST                  another registry that serves the same addresses
//	https://HOST/PATH/    a network mirror, or the provider protocol if PATH ends
//	                      in v1/providers
//	DIR                   a filesystem mirror
//	oci://HOST[/PREFIX]   the mirror repositories of another OCI registry
//
// Any other text is a *SourceError.
func OpenSource(from string, o SourceOptions) (depot.Source, error) {
	if where, ok := strings.CutPrefix(from, "oci://"); ok {
		host, prefix, err := addr.SplitRegistry(where)
		if err != nil {
			return nil, err
		}
		client, err := o.Registry(host)
		if err != nil {
			return nil, err
		}
		return RepositorySource(client, addr.Layout{Prefix: prefix}, o.Own), nil
	}
	if strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://") {
		u, err := url.Parse(from)
		if err != nil || u.Host == "" {
			return nil, &SourceError{From: from, URL: true}
		}
		client, err := o.Upstream(netaddr.HostPort(u))
		if err != nil {
			return nil, err
		}
		return HTTPSource(client, u), nil
	}
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return &upstream.FilesystemMirror{FS: os.DirFS(from)}, nil
	}
	var named []string
	switch {
	case from == "registry":
		from = "" // the own registry of each provider
	case from == "" || strings.ContainsAny(from, `/\ `):
		return nil, &SourceError{From: from}
	default:
		named = []string{from}
	}
	client, err := o.Upstream(named...)
	if err != nil {
		return nil, err
	}
	return &upstream.Registry{Client: client, Host: from}, nil
}

// HTTPSource reads the provider protocol if u is an address of it, which Nexus ends with a token, or else a network mirror.
func HTTPSource(client *upstream.Client, u *url.URL) depot.Source {
	if strings.Contains(u.Path+"/", "/v1/providers/") {
		return &upstream.Registry{Client: client, Base: u}
	}
	return &upstream.NetworkMirror{Client: client, Base: u}
}

// RepositorySource reads providers from the repositories of a layout.
func RepositorySource(client *oci.Client, l addr.Layout, own string) depot.Source {
	return upstream.NewRepository(func(p addr.Provider) (*oci.Repo, error) { return client.Repo(OwnProvider(p, own).Item().Repository(l)) })
}

// OwnProvider returns p as the registry stores it: its own providers, of host own, have no host.
func OwnProvider(p addr.Provider, own string) addr.Provider {
	if p.Hostname == own {
		p.Hostname = ""
	}
	return p
}
