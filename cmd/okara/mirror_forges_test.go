// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestMirrorForges takes a module from registries of other makers, as their sources or pages describe the answers. Gitea
// 1.26 has none: a depot takes its repositories by git.
func TestMirrorForges(t *testing.T) {
	var packed, zipped bytes.Buffer
	unzipped := zip.NewWriter(&zipped)
	must.Get(must.Get(unzipped.Create("main.tf"))(t).Write([]byte(`variable "cidr" {}`)))(t)
	must.Succeed(t, unzipped.Close())
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	must.Succeed(t, w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}))
	must.Succeed(t, w.WriteHeader(&tar.Header{Name: "./main.tf", Typeflag: tar.TypeReg, Mode: 0o644, Size: 18}))
	must.Get(w.Write([]byte(`variable "cidr" {}`)))(t)
	must.Succeed(t, w.Close())
	must.Succeed(t, z.Close())
	for name, forge := range map[string]struct {
		discovery, base, namespace string // HOST is the server
		versions, location         string
		stored                     string // path and query of the archive
		archive                    []byte
		from                       string
	}{
		// gitlabhq 017a6c12, lib/api/terraform/modules/v1/namespace_packages.rb and docs.gitlab.com/api/packages/terraform-modules:
		// a path from the root with a token of its own; objects are elsewhere.
		"GitLab 18": {
			`{"modules.v1":"/api/v4/packages/terraform/modules/v1/"}`, "/api/v4/packages/terraform/modules/v1/", "net",
			`{"modules":[{"versions":[{"version":"1.0.0","submodules":[],"root":{"dependencies":[],"providers":[{"name":"aws","version":""}]}}],"source":"https://gitlab.example.com/net/vpc"}]}`,
			"/api/v4/packages/terraform/modules/v1/net/vpc/aws/1.0.0/file?token=jwt&archive=tgz",
			"/api/v4/packages/terraform/modules/v1/net/vpc/aws/1.0.0/file?token=jwt", packed.Bytes(), "",
		},
		// hashicorp/terraform issue 31804 and docs.jfrog.com: addresses with the host, the repository in the namespace,
		// files as NAMESPACE/NAME/SYSTEM/VERSION.zip.
		"Artifactory 7": {
			`{"modules.v1":"http://HOST/artifactory/api/terraform/v1/modules/","state.v2":"http://HOST/artifactory/api/terraform/remote/v2","login.v1":{"client":"terraform-cli","grant_types":["authz_code"]}}`,
			"/artifactory/api/terraform/v1/modules/", "tf-local__net",
			`{"modules":[{"source":"tf-local__net/vpc/aws","versions":[{"version":"1.0.0"}]}]}`,
			"http://HOST/artifactory/tf-local/net/vpc/aws/1.0.0.zip", "/artifactory/tf-local/net/vpc/aws/1.0.0.zip", zipped.Bytes(), "",
		},
		// What Nexus Repository 3 tells users to write in host.services: no discovery, a token in the path.
		"Nexus 3": {
			"", "/repository/terraform/v1/modules/dG9rZW4/", "net",
			`{"modules":[{"versions":[{"version":"1.0.0"}]}]}`,
			"/repository/terraform/v1/modules/dG9rZW4/net/vpc/aws/1.0.0/vpc-1.0.0.zip",
			"/repository/terraform/v1/modules/dG9rZW4/net/vpc/aws/1.0.0/vpc-1.0.0.zip", zipped.Bytes(), "http://HOST/repository/terraform/v1/modules/dG9rZW4/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var srv *httptest.Server
			srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fill := strings.NewReplacer("HOST", strings.TrimPrefix(srv.URL, "http://")).Replace
				w.Header().Set("Content-Type", "application/json")
				switch module := forge.base + forge.namespace + "/vpc/aws/"; r.URL.RequestURI() {
				case "/.well-known/terraform.json":
					if forge.discovery == "" {
						http.NotFound(w, r)
					}
					_, _ = io.WriteString(w, fill(forge.discovery))
				case module + "versions":
					_, _ = io.WriteString(w, forge.versions)
				case module + "1.0.0/download":
					w.Header().Set("X-Terraform-Get", fill(forge.location))
					w.WriteHeader(http.StatusNoContent)
				case forge.stored:
					http.Redirect(w, r, "/objects/1?X-Amz-Signature=s", http.StatusFound)
				case "/objects/1?X-Amz-Signature=s":
					w.Header().Set("Content-Type", "application/octet-stream")
					_, _ = w.Write(forge.archive)
				default:
					t.Errorf("requested %s", r.URL.RequestURI())
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(srv.Close)
			host, here := ocitest.New(t, ocitest.Quirks{}), strings.TrimPrefix(srv.URL, "http://")
			args, address := []string{"mirror", here + "/" + forge.namespace + "/vpc/aws", "--registry", host}, forge.namespace+"/vpc/aws"
			if forge.from != "" {
				args = []string{"mirror", "okara.test/" + address, "--registry", host, "--from", strings.ReplaceAll(forge.from, "HOST", here)}
			}
			for _, want := range []string{"1 new", "1 skipped"} {
				if o := okara(t, args...); o.code != cli.ExitOK || !strings.Contains(o.err, want) {
					t.Fatalf("exit %d\n%s%s", o.code, o.out, o.err)
				}
			}
			shown := mustOkara(t, "show", address+"@1.0.0", "--registry", host, "--json")
			for _, word := range []string{"jwt", "dG9rZW4", "Signature"} {
				if strings.Contains(shown, word) {
					t.Errorf("the token is stored: %s", shown)
				}
			}
			if want := fmt.Sprintf("https://%s/%s", here, address); !strings.Contains(shown, want) || !strings.Contains(shown, "cidr") {
				t.Errorf("want %s, got %s", want, shown)
			}
		})
	}
}
