// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
)

// parser reads from the path of a request what the request is about, and kind and
// address of the right to it. Its error is told to those who have that right.
type parser[A any] func(r *http.Request) (at A, right access.Right, err error)

func moduleIn(r *http.Request) (addr.Module, access.Right, error) {
	m := addr.Module{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), System: r.PathValue("system")}
	return m, access.Right{Kind: addr.KindModule, Address: m.String()}, m.Validate()
}

func moduleVersionIn(r *http.Request) (addr.ModuleVersion, access.Right, error) {
	m, right, err := moduleIn(r)
	if err != nil {
		return addr.ModuleVersion{}, right, err
	}
	v, err := addr.ParseVersion(r.PathValue("version"))
	return addr.ModuleVersion{Module: m, Version: v}, right, err
}

// group is modules that have part of their address in common. An empty field is
// any.
type group struct{ namespace, name string }

func (g group) String() string { return strings.Trim(g.namespace+"/"+g.name, "/") }

func groupIn(r *http.Request) (group, access.Right, error) {
	g := group{r.PathValue("namespace"), r.PathValue("name")}
	return g, access.Right{Kind: addr.KindModule, Address: g.String()}, nil
}

// stored is a version of a module or of an own provider.
type stored struct {
	addr.Item
	version addr.Version
}

func storedModuleIn(r *http.Request) (stored, access.Right, error) {
	m, right, err := moduleVersionIn(r)
	return stored{m.Item(), m.Version}, right, err
}

// hostname is the name of the front-end as the address of its own providers has it;
// "": the one that the client used.
type hostname string

// is reports whether an address is of this front-end.
func (h hostname) is(r *http.Request, p addr.Provider) bool {
	if h != "" {
		return p.Hostname == string(h)
	}
	return p.Hostname == strings.ToLower(r.Host)
}

// provider reads the address of an own provider, or below /origin/ and /mirror/ of
// a mirrored one.
func (h hostname) provider(r *http.Request) (addr.Provider, access.Right, error) {
	source, right := r.PathValue("namespace")+"/"+r.PathValue("type"), access.Right{Kind: addr.KindProvider}
	if host := r.PathValue("hostname"); host != "" {
		source, right.Kind = host+"/"+source, addr.KindMirror
	}
	p, err := addr.ParseProvider(source)
	if err != nil {
		right.Address = source
		return p, right, err
	}
	if right.Kind == addr.KindMirror && h.is(r, p) {
		right.Kind, p.Hostname = addr.KindProvider, ""
	}
	right.Address = p.String() // in lower case, as it is stored
	return p, right, nil
}

// providerVersion is a version of a provider.
type providerVersion struct {
	addr.Provider
	version addr.Version
}

func (h hostname) release(r *http.Request) (providerVersion, access.Right, error) {
	return h.releaseOf(r, r.PathValue("version"))
}

// document is release for the answer of a network mirror.
func (h hostname) document(r *http.Request) (providerVersion, access.Right, error) {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	at, right, err := h.releaseOf(r, name)
	if !ok {
		err = errors.New("a network mirror has index.json and VERSION.json here")
	}
	return at, right, err
}

func (h hostname) releaseOf(r *http.Request, version string) (providerVersion, access.Right, error) {
	p, right, err := h.provider(r)
	if err != nil {
		return providerVersion{}, right, err
	}
	v, err := addr.ParseVersion(version)
	return providerVersion{p, v}, right, err
}

func (h hostname) stored(r *http.Request) (stored, access.Right, error) {
	p, right, err := h.release(r)
	return stored{p.Item(), p.version}, right, err
}

// build is a version of a provider for one platform.
type build struct {
	providerVersion
	platform addr.Platform
}

func (h hostname) build(r *http.Request) (build, access.Right, error) {
	at, right, err := h.release(r)
	return build{at, addr.Platform{OS: r.PathValue("os"), Arch: r.PathValue("arch")}}, right, err
}
