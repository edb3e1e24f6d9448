// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const (
	versionsJSON = `{"versions":[{"version":"1.0.0","platforms":[{"os":"linux","arch":"amd64"}]},{"version":"1.2.0"},{"version":"1.1.0"},{"version":"not one"}]}`
	packageJSON  = `{"protocols":["6.0"],"os":"linux","arch":"amd64","filename":"terraform-provider-dns_1.0.0_linux_amd64.zip",
"download_url":"/files/dns.zip","shasum":"ABCD","shasums_url":"/files/sums","shasums_signature_url":"/files/sums.sig",
"signing_keys":{"gpg_public_keys":[{"key_id":"K","ascii_armor":"A"}]},"packages":{"linux_amd64":{"hashes":["zh:abcd","h1:x="]}}}`
)

// origin serves a registry and mirror, and fails if files get the token.
func origin(t *testing.T) *url.URL {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			isFile := strings.HasPrefix(r.URL.Path, "/files/")
			if got := r.Header.Get("Authorization"); (got == "Bearer secret") == isFile {
				t.Errorf("%s: Authorization %q", r.URL.Path, got)
			}
			if !isFile {
				w.Header().Set("Content-Type", "application/json")
			}
			io.WriteString(w, body)
		})
	}
	answer("/.well-known/terraform.json", `{"providers.v1":"/p","modules.v1":"/m/"}`)
	answer("/p/acme/dns/versions", versionsJSON)
	answer("/p/acme/dns/1.0.0/download/linux/amd64", packageJSON)
	answer("/p/acme/dns/1.0.0/download/linux/arm64", packageJSON)
	answer("/p/acme/dns/1.1.0/download/darwin/arm64", `{"os":"darwin","arch":"arm64","shasums_url":"/files/sums-1.1.0"}`)
	answer("/p/acme/dns/1.2.0/download/darwin/arm64", `{"os":"darwin","arch":"arm64","packages":{"linux_arm":{},"darwin_arm64":{}}}`)
	answer("/files/sums-1.1.0", "00  terraform-provider-dns_1.1.0_linux_arm.zip\n00  terraform-provider-dns_1.1.0_manifest.json\n00  terraform-provider-dns_1.1.0_darwin_arm64.zip\n")
	answer("/files/dns.zip", "zip bytes")
	answer("/files/sums", "sums")
	answer("/files/sums.sig", "sig")
	answer("/mirror/example.com/acme/dns/index.json", `{"versions":{"1.0.0":{},"v":{}}}`)
	answer("/mirror/example.com/acme/dns/1.0.0.json", `{"archives":{"linux_amd64":{"url":"../../../../files/dns.zip","hashes":["h1:x=","zh:ABCD"]}}}`)
	mux.HandleFunc("GET /p/acme/html/versions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>")
	})
	mux.HandleFunc("GET /p/acme/private/versions", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /m/net/vpc/aws/1.0.0/download", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Terraform-Get", "../../../../../files/vpc.zip?archive=zip")
		w.WriteHeader(http.StatusNoContent)
	})
	answer("/m/net/vpc/aws/2.0.0/download", `{"location":"git::https://example.com/vpc.git//sub?ref=v2"}`)
	answer("/m/net/vpc/aws/versions", `{"modules":[{"versions":[{"version":"1.0.0"},{"version":"2.0.0"}]}]}`)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return must.Get(url.Parse(srv.URL))(t)
}

func client() *upstream.Client {
	return &upstream.Client{Token: func(string) string { return "secret" }}
}

var linux = addr.Platform{OS: "linux", Arch: "amd64"}

func TestRegistry(t *testing.T) {
	host := origin(t).Host
	p := addr.Provider{Hostname: host, Namespace: "acme", Type: "dns"}
	r := &upstream.Registry{Client: client()}
	versions := must.Get(r.Versions(t.Context(), p))(t)
	must.Equal(t, "versions", fmt.Sprint(versions), "[1.2.0 1.1.0 1.0.0]")
	for i, want := range []string{"[darwin_arm64 linux_arm]", "[darwin_arm64 linux_arm]", "[linux_amd64]"} {
		platforms, err := r.Platforms(t.Context(), p, versions[i])
		if err != nil || fmt.Sprint(platforms) != want {
			t.Errorf("platforms of %s: %v, %v; want %s", versions[i], platforms, err, want)
		}
	}
	pkg := must.Get(r.Package(t.Context(), p, versions[2], linux))(t)
	checkPackage(t, pkg)
	if string(pkg.Shasums) != "sums" || string(pkg.Signature) != "sig" || len(pkg.Keys) != 1 || pkg.Keys[0].KeyID != "K" {
		t.Errorf("proof %q %q %v", pkg.Shasums, pkg.Signature, pkg.Keys)
	}
	if _, err := r.Package(t.Context(), p, versions[2], addr.Platform{OS: "linux", Arch: "arm64"}); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("an answer for another platform: %v", err)
	}
}

func checkPackage(t *testing.T, pkg upstream.Package) {
	t.Helper()
	body := must.Get(pkg.Open(t.Context()))(t)
	defer body.Close()
	if zip, err := io.ReadAll(body); err != nil || string(zip) != "zip bytes" {
		t.Errorf("package %q, %v", zip, err)
	}
	got := [3]string{pkg.Filename, pkg.Zh, pkg.H1}
	must.Match(t, "value", got, [3]string{"terraform-provider-dns_1.0.0_linux_amd64.zip", "abcd", "h1:x="})
}

func TestRegistryErrors(t *testing.T) {
	host := origin(t).Host
	r := &upstream.Registry{Client: client()}
	for name, test := range map[string]struct {
		p    addr.Provider
		want error
	}{
		"unknown":      {addr.Provider{Hostname: host, Namespace: "acme", Type: "none"}, oci.ErrNotFound},
		"html":         {addr.Provider{Hostname: host, Namespace: "acme", Type: "html"}, oci.ErrCorrupt},
		"denied":       {addr.Provider{Hostname: host, Namespace: "acme", Type: "private"}, oci.ErrUnauthenticated},
		"unreachable":  {addr.Provider{Hostname: "127.0.0.1:1", Namespace: "acme", Type: "dns"}, oci.ErrUnavailable},
		"no host name": {addr.Provider{Namespace: "acme", Type: "dns"}, oci.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.Versions(t.Context(), test.p); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestNetworkMirror(t *testing.T) {
	m := &upstream.NetworkMirror{Client: client(), Base: origin(t).JoinPath("/mirror/")}
	p := addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"}
	versions, err := m.Versions(t.Context(), p)
	if err != nil || fmt.Sprint(versions) != "[1.0.0]" {
		t.Fatalf("versions %v, %v", versions, err)
	}
	if platforms, err := m.Platforms(t.Context(), p, versions[0]); err != nil || len(platforms) != 1 {
		t.Fatalf("platforms %v, %v", platforms, err)
	}
	pkg := must.Get(m.Package(t.Context(), p, versions[0], linux))(t)
	checkPackage(t, pkg)
}

func TestFilesystemMirror(t *testing.T) {
	dir := "example.com/acme/dns/"
	m := &upstream.FilesystemMirror{FS: fstest.MapFS{
		dir + "terraform-provider-dns_1.0.0-rc.1_linux_amd64.zip": {Data: []byte("a")},
		dir + "terraform-provider-dns_1.0.0_linux_amd64.zip":      {Data: []byte("b")},
		dir + "terraform-provider-dns_1.0.0_darwin_arm64.zip":     {Data: []byte("c")},
		dir + "1.0.0.json": {Data: []byte("{}")},
	}}
	p := addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"}
	versions, err := m.Versions(t.Context(), p)
	if err != nil || fmt.Sprint(versions) != "[1.0.0 1.0.0-rc.1]" {
		t.Fatalf("versions %v, %v", versions, err)
	}
	platforms, err := m.Platforms(t.Context(), p, versions[0])
	if err != nil || fmt.Sprint(platforms) != "[darwin_arm64 linux_amd64]" {
		t.Errorf("platforms %v, %v", platforms, err)
	}
	if _, err := m.Package(t.Context(), p, versions[1], platforms[0]); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a package that is not there: %v", err)
	}
	p.Type = "other"
	if _, err := m.Versions(t.Context(), p); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an unknown provider: %v", err)
	}
}
