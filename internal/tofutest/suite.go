// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
)

// Target is a running server.
type Target struct {
	Base  string       // "https://okara.example.com"
	HTTP  *http.Client // nil: [http.DefaultClient]
	Token string
}

// Each runs a test with both tools.
func (s Target) Each(t *testing.T, f func(t *testing.T, c *Client)) {
	for _, tool := range Tools() {
		t.Run(tool.Name, func(t *testing.T) { f(t, &Client{Tool: tool, HTTP: s.HTTP, Token: s.Token}) })
	}
}

func (s Target) url(t testing.TB, path string) *url.URL {
	t.Helper()
	return must.Get(url.Parse(strings.TrimSuffix(s.Base, "/") + path))(t)
}

// Module is the expected content of one module on the server.
type Module struct {
	Address  string            // "namespace/name/system"
	Versions []string          // in the order of the list, highest first
	Files    map[string]string // of every version
}

// RunModules checks that both tools find every version of a module and get its files, and
// that a missing module is not found.
func RunModules(t *testing.T, server Target, want Module) {
	server.Each(t, func(t *testing.T, c *Client) {
		s := must.Get(c.Discover(t.Context(), server.Base))(t)
		got := must.Get(c.ModuleVersions(t.Context(), s.Modules, want.Address))(t)
		if diff := cmp.Diff(got, want.Versions); diff != "" {
			t.Errorf("versions of %s, got - want +:\n%s", want.Address, diff)
		}
		for _, v := range want.Versions {
			files := must.Get(c.Module(t.Context(), s.Modules, want.Address, v))(t)
			if diff := cmp.Diff(files, want.Files); diff != "" {
				t.Errorf("%s %s, got - want +:\n%s", want.Address, v, diff)
			}
		}
		if _, err := c.ModuleLocation(t.Context(), s.Modules, want.Address, "999.0.0"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a version that is not there: %v, want not found", err)
		}
		if _, err := c.ModuleVersions(t.Context(), s.Modules, "none/such/module"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a module that is not there: %v, want not found", err)
		}
	})
}

// Provider is the expected content of one version of a provider on the server.
type Provider struct {
	Host      string // of its address, as users write it
	Address   string // "namespace/type"
	Version   string
	Protocols []string
	Zips      map[string][]byte // by platform, "linux_amd64"
}

// RunProviders checks that both tools list and install every platform of a version with its own
// bytes, and that a platform it lacks is not found. service is the path of the providers service;
// for mirrored providers the server's own discovery document does not contain it.
func RunProviders(t *testing.T, server Target, service string, want Provider) {
	server.Each(t, func(t *testing.T, c *Client) {
		base := server.url(t, service)
		versions, err := c.ProviderVersions(t.Context(), base, want.Address)
		if err != nil || !slices.Contains(versions.List(), want.Version) {
			t.Fatalf("versions of %s: %v, %v; want %s among them", want.Address, versions.List(), err, want.Version)
		}
		for _, platform := range slices.Sorted(maps.Keys(want.Zips)) {
			os, arch, _ := strings.Cut(platform, "_")
			in := must.Get(c.Provider(t.Context(), base, want.Host, want.Address, want.Version, os, arch))(t)
			if !bytes.Equal(in.Zip, want.Zips[platform]) {
				t.Errorf("%s: other bytes than published", platform)
			}
			if len(in.Hashes) < len(want.Zips) || len(in.Packages) != len(want.Zips) {
				t.Errorf("%s: %d hashes and %d packages, want those of all %d platforms", platform, len(in.Hashes), len(in.Packages), len(want.Zips))
			}
			if diff := cmp.Diff(in.Protocols, want.Protocols); diff != "" {
				t.Errorf("protocols, got - want +:\n%s", diff)
			}
		}
		if _, err = c.Provider(t.Context(), base, want.Host, want.Address, want.Version, "plan9", "mips"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a platform that is not there: %v, want not found", err)
		}
		if _, err = c.ProviderVersions(t.Context(), base, "none/such"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a provider that is not there: %v, want not found", err)
		}
	})
}

// RunMirror checks that both tools install every platform of a version from
// the network mirror below /mirror/.
func RunMirror(t *testing.T, server Target, want Provider) {
	server.Each(t, func(t *testing.T, c *Client) {
		base := server.url(t, "/mirror/")
		source := want.Host + "/" + want.Address
		versions, err := c.MirrorVersions(t.Context(), base, source)
		if err != nil || !slices.Contains(versions, want.Version) {
			t.Fatalf("versions of %s: %v, %v; want %s among them", source, versions, err, want.Version)
		}
		for _, platform := range slices.Sorted(maps.Keys(want.Zips)) {
			a := must.Get(c.Mirror(t.Context(), base, source, want.Version, platform))(t)
			if !bytes.Equal(a.Zip, want.Zips[platform]) {
				t.Errorf("%s: other bytes than published", platform)
			}
		}
		if _, err := c.MirrorVersions(t.Context(), base, want.Host+"/none/such"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a provider that is not there: %v, want not found", err)
		}
	})
}
