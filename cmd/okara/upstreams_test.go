// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestOriginLeadsNowhereInside has a module registry, named by the user, that answers with an
// internal address for its module, or with a repository on this machine.
//
// Shows: kinds 8
// Shows: mistakes 15 | a module registry could answer with `git::file://…` or an internal address |
// git over https and ssh only; answers of an origin lead only to public addresses, unless the
// administrator names a host
func TestOriginLeadsNowhereInside(t *testing.T) {
	dir, tag := newGitModule(t)
	tag("v1.0.0")
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inside.Close)
	host := ocitest.New(t, ocitest.Quirks{})
	for name, test := range map[string]struct {
		location string
		allow    bool
		reason   string
		asks     bool
	}{
		"archive":                {inside.URL + "/vpc.zip", false, "--allow-internal", false},
		"archive, allowed":       {inside.URL + "/vpc.zip", true, "", true},
		"git":                    {"git::" + inside.URL + "/vpc.git", false, "--allow-internal", false},
		"git, allowed":           {"git::" + inside.URL + "/vpc.git", true, "", true},
		"git over ssh":           {"git::ssh://git@127.0.0.1:1/vpc.git", false, "--allow-internal", false},
		"registry":               {"oci://" + strings.TrimPrefix(inside.URL, "http://") + "/vpc?tag=1.0.0", false, "--allow-internal", false},
		"registry, allowed":      {"oci://" + strings.TrimPrefix(inside.URL, "http://") + "/vpc?tag=1.0.0", true, "", true},
		"git, of this machine":   {"git::file://" + dir, true, "https and ssh", false},
		"git, a path":            {"git::" + dir, true, "address", false},
		"git, a command":         {"git::ext::sh -c id", true, "https and ssh", false},
		"metadata of a cloud":    {"https://169.254.169.254/latest.zip", false, "--allow-internal", false},
		"git, metadata of cloud": {"git::https://169.254.169.254/latest.git", false, "--allow-internal", false},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			answer := func(path, text string) {
				mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(text))
				})
			}
			answer("/.well-known/terraform.json", `{"modules.v1":"/m/"}`)
			answer("/m/net/vpc/aws/versions", `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
			mux.HandleFunc("/m/net/vpc/aws/1.0.0/download", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Terraform-Get", test.location)
				w.WriteHeader(http.StatusNoContent)
			})
			origin := httptest.NewServer(mux)
			defer origin.Close()
			from := strings.TrimPrefix(origin.URL, "http://")
			depotFile := filepath.Join(t.TempDir(), "depot.hcl")
			must.Succeed(t, os.WriteFile(depotFile, []byte("module \"net/vpc/aws\" {\n  source = \""+from+"/net/vpc/aws\"\n}\n"), 0o600))
			for _, args := range [][]string{{"mirror", from + "/net/vpc/aws"}, {"depot", "apply", "-f", depotFile}} {
				asked.Store(0)
				args = append(args, "--registry", host)
				if test.allow {
					args = append(args, "--allow-internal", "127.0.0.1")
				}
				o := okara(t, args...)
				if o.code != cli.ExitPartly || !strings.Contains(o.out+o.err, test.reason) {
					t.Errorf("%s: exit %d\n%s%s", args[0], o.code, o.out, o.err)
				}
				if (asked.Load() > 0) != test.asks {
					t.Errorf("%s: %d requests inside", args[0], asked.Load())
				}
			}
		})
	}
	if o := okara(t, "mirror", "net/vpc/aws", "--registry", host, "--allow-internal", "*"); o.code != cli.ExitUsage {
		t.Errorf("any host: exit %d, %s", o.code, o.err)
	}
}
