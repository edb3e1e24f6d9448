// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// parseModuleSource parses [HOST/]NAMESPACE/NAME/SYSTEM, github.com/OWNER/REPOSITORY, a git URL, or
// oci://HOST/REPOSITORY, without version.
func parseModuleSource(s string) (ModuleSource, error) {
	address, subdir, _ := strings.Cut(s, "//")
	if host, m, ok := registryAddress(address); ok {
		return ModuleSource{Kind: SourceRegistry, Host: host, Address: m, Location: upstream.Location{Subdir: subdir}}, nil
	}
	if l, ok := upstream.LocalGit(s); ok {
		return ModuleSource{Kind: sourceGit, Location: l}, nil
	}
	l, err := upstream.ParseLocation(s)
	if err != nil {
		return ModuleSource{}, err
	}
	if l.Ref != "" {
		return ModuleSource{}, fmt.Errorf("source %q names one version; the versions argument selects them", upstream.Redact(s))
	}
	switch {
	case l.Kind == upstream.KindOCI:
		return ModuleSource{Kind: sourceOCI, Location: l}, nil
	case l.Kind == upstream.KindGit && l.URL.Hostname() == "github.com":
		return ModuleSource{Kind: sourceGitHub, Location: l}, nil
	case l.Kind == upstream.KindGit:
		return ModuleSource{Kind: sourceGit, Location: l}, nil
	}
	return ModuleSource{}, fmt.Errorf("source %q is one archive and has no versions; use a git URL, a registry address or an OCI repository", upstream.Redact(s))
}

func registryAddress(s string) (host string, m addr.Module, ok bool) {
	parts := strings.Split(s, "/")
	host = defaultOrigin
	if len(parts) == 4 && strings.ContainsAny(parts[0], ".:") && !strings.Contains(s, "://") && parts[0] != "github.com" {
		host = parts[0]
		parts = parts[1:]
	}
	if len(parts) != 3 || strings.Contains(parts[0], ".") {
		return "", addr.Module{}, false
	}
	m, err := addr.ParseWritten(strings.Join(parts, "/"))
	return host, m, err == nil
}

// Key returns the name of the entry in a [Record].
func (e ModuleEntry) Key() string { return addr.KindModule + " " + e.Address.String() }

// Key returns the name of the entry in a [Record].
func (e ProviderEntry) Key() string { return addr.KindMirror + " " + e.Address.String() }

// From describes the source of the versions for messages, without secrets of a URL.
func (e ModuleEntry) From() string {
	text := e.Source.Host + "/" + e.Source.Address.String()
	if e.Source.Kind != SourceRegistry {
		text = publicURL(e.Source.Location)
	}
	if e.Subdir != "" {
		text += "//" + e.Subdir
	}
	return text
}

// From describes the source of the versions, as [ModuleEntry.From] does.
func (e ProviderEntry) From() string {
	if e.Origin == "" {
		return e.Address.Hostname
	}
	if u, err := url.Parse(e.Origin); err == nil && u.Host != "" {
		return publicURL(upstream.Location{URL: u})
	}
	return e.Origin
}

// ownerAndName splits the path of a forge's repository.
func ownerAndName(u *url.URL) (owner, name string) {
	owner, name, _ = strings.Cut(strings.Trim(strings.TrimSuffix(u.Path, ".git"), "/"), "/")
	return owner, name
}
