// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/frontend"
)

// item is one module or provider named on the command line, with the versions
// that are meant.
type item struct {
	kind     string // addr.KindModule, addr.KindProvider or addr.KindMirror
	module   addr.Module
	provider addr.Provider
	versions string // the constraint as written; "" means all
	allow    addr.Constraint
}

// parseItem reads ADDRESS[@CONSTRAINT]. An address of three parts is a mirrored
// provider if the first is a host name, else a module; one of two parts is an
// own provider.
func parseItem(s string) (item, error) {
	address, versions, _ := strings.Cut(s, "@")
	it := item{versions: versions}
	var err error
	if it.allow, err = addr.ParseConstraint(versions); err != nil {
		return item{}, err
	}
	first, _, _ := strings.Cut(address, "/")
	switch {
	case strings.Count(address, "/") == 1:
		it.kind = addr.KindProvider
		it.provider, err = addr.ParseProvider(address)
	case strings.ContainsAny(first, ".:") || first == "localhost":
		it.kind = addr.KindMirror
		it.provider, err = addr.ParseProvider(address)
	default:
		it.kind = addr.KindModule
		it.module, err = addr.ParseModule(address)
	}
	return it, err
}

// parseItemVersion reads ADDRESS@VERSION.
func parseItemVersion(s string) (item, addr.Version, error) {
	address, version, _ := strings.Cut(s, "@")
	it, err := parseItem(address)
	if err != nil {
		return item{}, addr.Version{}, err
	}
	v, err := addr.ParseVersion(version)
	return it, v, err
}

// selects reports whether v is meant. Without a constraint every version is,
// pre-releases and editions included.
func (it item) selects(v addr.Version) bool { return it.versions == "" || it.allow.Allows(v) }

func (it item) repository(l addr.Layout) string {
	switch it.kind {
	case addr.KindModule:
		return l.Module(it.module)
	case addr.KindMirror:
		return l.MirrorOf(it.provider)
	}
	return l.Provider(it.provider)
}

// frontPath is where a front-end takes changes of the item.
func (it item) frontPath() (string, error) {
	switch it.kind {
	case addr.KindModule:
		return frontend.ModulePath(it.module), nil
	case addr.KindProvider:
		return frontend.ProviderPath(it.provider), nil
	}
	return "", usageError("%s is mirrored; a front-end takes changes of what was published there only", it.provider)
}
