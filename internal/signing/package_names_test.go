// SPDX-License-Identifier: Apache-2.0

package signing_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/signing"
)

func TestPackagePlatform(t *testing.T) {
	p, v := depottest.DNS(), depottest.MustVersion(t, "1.2.3")
	want := addr.Platform{OS: "linux", Arch: "amd64"}
	name := signing.PackageName(p, v, want)
	must.Equal(t, "name", name, "terraform-provider-dns_1.2.3_linux_amd64.zip")
	if got, err := signing.PackagePlatform(p, v, name); err != nil || got != want {
		t.Errorf("%s is for %v, %v", name, got, err)
	}
	if gotVersion, got, ok := signing.ParsePackageName(p, name); !ok || gotVersion != v || got != want {
		t.Errorf("%s is %s for %v, %v", name, gotVersion, got, ok)
	}
	for _, name := range []string{"terraform-provider-dns_1.2.3_linux_amd64", "terraform-provider-dns_1.2.3_linux.zip", "dns_1.2.3_linux_amd64.zip"} {
		if _, _, ok := signing.ParsePackageName(p, name); ok {
			t.Errorf("%q is the name of a package", name)
		}
	}
	for _, name := range []string{
		"terraform-provider-dns_1.2.4_linux_amd64.zip", "terraform-provider-time_1.2.3_linux_amd64.zip",
		"terraform-provider-dns_1.2.3_linux.zip", "dns_1.2.3_linux_amd64.zip", "",
	} {
		if got, err := signing.PackagePlatform(p, v, name); !errors.Is(err, signing.ErrNoProvider) {
			t.Errorf("%q is for %v, %v", name, got, err)
		}
	}
}

func TestSplitName(t *testing.T) {
	p := addr.Provider{Hostname: "registry.opentofu.org", Namespace: "hashicorp", Type: "dns"}
	for name, want := range map[string][2]string{
		"terraform-provider-dns_1.2.3_linux_amd64.zip":  {"1.2.3", "linux_amd64.zip"},
		"terraform-provider-dns_1.2.3-rc1_SHA256SUMS":   {"1.2.3-rc1", "SHA256SUMS"},
		"terraform-provider-dns_1.2.3":                  {},
		"terraform-provider-dns_x_linux_amd64.zip":      {},
		"terraform-provider-dns2_1.2.3_linux_amd64.zip": {},
	} {
		v, rest, ok := signing.SplitPackageName(p, name)
		if ok != (want[0] != "") || ok && (v.String() != want[0] || rest != want[1]) {
			t.Errorf("%s: got %s, %q, %v, want %q", name, v, rest, ok, want)
		}
	}
}

func TestParseRegistryManifest(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // nil: refused
	}{
		{"two", `{"version":1,"metadata":{"protocol_versions":["5.0","6.0"]}}`, []string{"5.0", "6.0"}},
		{"none says the default", `{"version":1}`, []string{"5.0"}},
		{"another format", `{"version":2,"metadata":{"protocol_versions":["5.0"]}}`, nil},
		{"no protocol", `{"version":1,"metadata":{"protocol_versions":["5"]}}`, nil},
		{"no JSON", `x`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := signing.ParseRegistryManifest([]byte(tt.text))
			if (err == nil) != (tt.want != nil) || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestHash: equal files have one h1:; what clients cannot install is refused.
func TestHash(t *testing.T) {
	linux, windows := addr.Platform{OS: "linux", Arch: "amd64"}, addr.Platform{OS: "windows", Arch: "amd64"}
	plugin := depottest.File("terraform-provider-dns_v1.2.3", "binary", 0o755)
	license := depottest.File("LICENSE", "free", 0o644)
	hash := func(p addr.Platform, files ...depottest.ZipEntry) (string, error) {
		zip := depottest.NewZip(t, files...)
		return signing.HashPackage(t.Context(), bytes.NewReader(zip), int64(len(zip)), "dns", p)
	}
	one := must.Get(hash(linux, plugin, license))(t)
	if other, err := hash(linux, license, plugin); err != nil || other != one {
		t.Errorf("in another order %s, %v, want %s", other, err, one)
	}
	if _, err := hash(windows, depottest.File("terraform-provider-dns.exe", "binary", 0o644)); err != nil {
		t.Errorf("windows knows no mode: %v", err)
	}
	exe := depottest.File("terraform-provider-dns.exe", "binary", 0o755)
	for _, name := range []string{"C:/LICENSE", "docs/aux.txt", "Terraform-Provider-Dns.exe"} {
		file := depottest.File(name, "free", 0o644)
		if _, err := hash(windows, exe, file); !errors.Is(err, signing.ErrNoProvider) {
			t.Errorf("%s: %v", name, err)
		}
		must.Get(hash(linux, plugin, file))(t)
	}
	for name, files := range map[string][]depottest.ZipEntry{
		"no plugin":      {license},
		"two plugins":    {plugin, depottest.File("terraform-provider-dns", "binary", 0o755)},
		"not executable": {depottest.File("terraform-provider-dns", "binary", 0o644)},
		"in a folder":    {depottest.File("bin/terraform-provider-dns", "binary", 0o755)},
		"backslash":      {plugin, depottest.File(`docs\LICENSE`, "free", 0o644)},
		"out of the way": {plugin, depottest.File("../LICENSE", "free", 0o644)},
	} {
		if h1, err := hash(linux, files...); !errors.Is(err, signing.ErrNoProvider) {
			t.Errorf("%s: %s, %v", name, h1, err)
		}
	}
}
