// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestParseModule(t *testing.T) {
	tests := []struct {
		name, in string
		want     addr.Module
		err      string // part of the message; empty: no error
	}{
		{name: "plain", in: "net/vpc/aws", want: addr.Module{Namespace: "net", Name: "vpc", System: "aws"}},
		{name: "separators", in: "a-b/c__d_e/x9", want: addr.Module{Namespace: "a-b", Name: "c__d_e", System: "x9"}},
		{name: "many dashes", in: "a--b/c/x", want: addr.Module{Namespace: "a--b", Name: "c", System: "x"}},
		{name: "two parts", in: "net/vpc", err: "NAMESPACE/NAME/SYSTEM"},
		{name: "four parts", in: "h/net/vpc/aws", err: "NAMESPACE/NAME/SYSTEM"},
		{name: "upper case", in: "Azure/Naming/azurerm", want: addr.Module{Namespace: "azure", Name: "naming", System: "azurerm"}},
		{name: "upper case in system", in: "net/vpc/AWS", err: `module system "AWS": upper-case 'A'`},
		{name: "three underscores", in: "net/v___pc/aws", err: `module name "v___pc": "___" is not allowed`},
		{name: "mixed separators", in: "net/v_-pc/aws", err: `"_-" is not allowed`},
		{name: "leading dash", in: "-net/vpc/aws", err: "must not start with"},
		{name: "trailing underscore", in: "net/vpc_/aws", err: "must not end with"},
		{name: "dash in system", in: "net/vpc/a-ws", err: `module system "a-ws": character '-'`},
		{name: "dot", in: "net/v.pc/aws", err: "character '.'"},
		{name: "escape", in: "net/../aws", err: "character '.'"},
		{name: "empty", in: "net//aws", err: "must not be empty"},
		{name: "too long", in: "net/" + strings.Repeat("a", 65) + "/aws", err: "65 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := addr.ParseModule(tt.in)
			checkParse(t, got, tt.want, err, tt.err)
		})
	}
}

func TestParseProvider(t *testing.T) {
	tests := []struct {
		name, in string
		want     addr.Provider
		err      string
	}{
		{name: "own", in: "acme/dns", want: addr.Provider{Namespace: "acme", Type: "dns"}},
		{name: "lower-cased", in: "Registry.OpenTofu.org/HashiCorp/AWS", want: addr.Provider{Hostname: "registry.opentofu.org", Namespace: "hashicorp", Type: "aws"}},
		{name: "port", in: "localhost:8443/a/b", want: addr.Provider{Hostname: "localhost:8443", Namespace: "a", Type: "b"}},
		{name: "default port", in: "example.com:443/a/b", want: addr.Provider{Hostname: "example.com", Namespace: "a", Type: "b"}},
		{name: "idn", in: "Bücher.example/a/b", want: addr.Provider{Hostname: "xn--bcher-kva.example", Namespace: "a", Type: "b"}},
		{name: "address literal", in: "127.0.0.1:5000/a/b", want: addr.Provider{Hostname: "127.0.0.1:5000", Namespace: "a", Type: "b"}},
		{name: "underscore", in: "acme/d_ns", err: `provider type "d_ns": character '_'`},
		{name: "double dash", in: "ac--me/dns", err: `"--" is not allowed`},
		{name: "not ASCII", in: "acmé/dns", err: `character 'é'`},
		{name: "one part", in: "dns", err: "[HOST/]NAMESPACE/TYPE"},
		{name: "bad port", in: "h:0/a/b", err: "port"},
		{name: "port with zero", in: "h:0443/a/b", err: "port"},
		{name: "host with underscore", in: "a_b.example/a/b", err: "provider host"},
		{name: "empty host", in: "/a/b", err: "provider host"},
		{name: "trailing dot", in: "example.com./a/b", err: "provider host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := addr.ParseProvider(tt.in)
			checkParse(t, got, tt.want, err, tt.err)
		})
	}
}

func TestParsePlatform(t *testing.T) {
	got, err := addr.ParsePlatform("linux_amd64")
	checkParse(t, got, addr.Platform{OS: "linux", Arch: "amd64"}, err, "")
	for _, s := range []string{"", "linux", "linux_", "_amd64", "linux_amd64_v2", "Linux_amd64", "linux/amd64"} {
		if p, err := addr.ParsePlatform(s); err == nil {
			t.Errorf("ParsePlatform(%q) = %v, want an error", s, p)
		}
	}
}

func TestSplitRegistry(t *testing.T) {
	tests := []struct{ in, host, prefix, err string }{
		{in: "localhost:5000", host: "localhost:5000"},
		{in: "localhost:5000/", host: "localhost:5000"},
		{in: "localhost:5000/acme/platform", host: "localhost:5000", prefix: "acme/platform"},
		{in: "[::1]:5000/a", host: "[::1]:5000", prefix: "a"},
		{in: "", err: "HOST"},
		{in: "https://localhost:5000", err: "without a scheme"},
		{in: "user:secret@host/a", err: `registry "host/a": must be HOST[:PORT][/PREFIX], without a user`},
		{in: "https://user:secret@host/a?token=x", err: `registry "host/a": must`},
		{in: "host/Acme", err: "upper-case"},
		{in: "host/a//b", err: "must not be empty"},
		{in: "host/a:1.0", err: "character ':'"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			host, prefix, err := addr.SplitRegistry(tt.in)
			checkParse(t, [2]string{host, prefix}, [2]string{tt.host, tt.prefix}, err, tt.err)
		})
	}
}

func TestCheckRepository(t *testing.T) {
	if err := addr.CheckRepository("localhost:5000", "a/b.c/d__e"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "a/", "A", "a/../b", strings.Repeat("a", 250)} {
		if err := addr.CheckRepository("localhost:5000", name); err == nil {
			t.Errorf("%q: want an error", name)
		}
	}
}

func checkParse[T any](t *testing.T, got, want T, err error, wantErr string) {
	t.Helper()
	if wantErr == "" {
		if err != nil {
			t.Fatal(err)
		}
		must.Match(t, "value", got, want, cmp.Comparer(func(a, b addr.Version) bool { return a == b }))
		return
	}
	if _, ok := errors.AsType[*addr.SyntaxError](err); !ok || !strings.Contains(err.Error(), wantErr) {
		t.Errorf("got error %v, want a SyntaxError with %q", err, wantErr)
	}
}
