// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// lockOf is a lock of one call.
func lockOf(t *testing.T, source, version, text string) string {
	t.Helper()
	hash := must.Get(dirhash.Hash1([]string{"main.tf"}, func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }))(t)
	return fmt.Sprintf("package %q %q {\n  hashes = [%q]\n}\ncall \"m\" {\n  package = %[1]q\n  version = %[2]q\n}\n", source, version, hash)
}

// TestModuleLock: an attempt selects what the lock of its module names, and ends before a plan if
// something else was installed. The tool is a real one.
func TestModuleLock(t *testing.T) {
	text := func(version string) string { return "output \"v\" {\n  value = \"" + version + "\"\n}\n" }
	var served string // content of 1.0.0
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, isZip := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".zip")
		switch {
		case isZip && version == "1.0.0":
			_, _ = w.Write(depottest.ZipOf(t, map[string]string{"main.tf": served}))
		case isZip:
			_, _ = w.Write(depottest.ZipOf(t, map[string]string{"main.tf": text(version)}))
		case r.URL.Path == "/v1/modules/net/vpc/aws/versions":
			_, _ = w.Write([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"1.1.0"}]}]}`))
		default:
			w.Header().Set("X-Terraform-Get", "/"+strings.Split(r.URL.Path, "/")[6]+".zip")
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer registry.Close()
	const call = "module \"m\" {\n  source  = \"okara.example/net/vpc/aws\"\n  version = \"~> 1.0\"\n}\noutput \"v\" {\n  value = module.m.v\n}\n"
	lock := lockOf(t, "okara.example/net/vpc/aws", "1.0.0", text("1.0.0"))
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), nil)
	tr.order.Program = tofutest.Tofu(t)
	tr.order.Server = sandbox.Server{URL: registry.URL, Host: "okara.example"}
	tr.order.Spec.Outputs = []string{"v"}
	for _, c := range []struct {
		name, served, lock string
		required           bool
		want               string // the output, or the beginning of the error
	}{
		{"no lock", "1.0.0", "", false, `"1.1.0"`},
		{"no lock, required", "1.0.0", "", true, "the configuration has no .okara.lock.hcl, which this run requires hint: "},
		{"locked", "1.0.0", lock, true, `"1.0.0"`},
		{"other content", "1.0.0-x", lock, false, "the installed modules do not match .okara.lock.hcl: module \"m\": okara.example/net/vpc/aws is installed as h1:"},
		{"hostile lock", "1.0.0", "package \"a\" \"b\" {\n  hashes = [\"${file(\"/etc/passwd\")}\"]\n}\n", false, "reading the module lock file: .okara.lock.hcl:1: hashes must be a constant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			served = text(c.served)
			files := map[string]string{"main.tf": call}
			if c.lock != "" {
				files[".okara.lock.hcl"] = c.lock
			}
			tr.module(files)
			tr.order.Spec.RequireLock = c.required
			r, log := tr.run()
			if got := r.Error + string(r.Outputs["v"]); !strings.HasPrefix(got, c.want) || r.Permanent != strings.Contains(c.want, "lock") {
				t.Errorf("%q, want %q: %+v\n%s", got, c.want, r, log)
			}
		})
	}
}

// TestRemoteModuleLock: what the lock of an upload says holds before its plan, also for links, and a
// workspace can require one.
func TestRemoteModuleLock(t *testing.T) {
	const installed = `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"m","Source":"okara.example/net/vpc/aws","Version":"1.0.0","Dir":".terraform/modules/m"}]}`
	files := map[string]string{"main.tf": "module \"m\" {\n  source = \"okara.example/net/vpc/aws\"\n}\n", ".okara.lock.hcl": lockOf(t, "okara.example/net/vpc/aws", "1.0.0", "# text\n")}
	for name, c := range map[string]struct{ more, want string }{
		"the same":       {"", "planned\n"},
		"a byte":         {"echo >> .terraform/modules/m/main.tf", "okara: failed: the installed modules do not match .okara.lock.hcl: module \"m\": "},
		"a link out":     {"ln -s ../../../../given .terraform/modules/m/x", "okara: failed: module \"m\" cannot be read, run init again: x is a link to outside the package"},
		"a folder's":     {"mv .terraform/modules/m x && ln -s /proc/self/cwd .terraform/modules/m", "okara: failed: module \"m\" cannot be read, run init again: "},
		"another record": {"sed -i s,modules/m,x, .terraform/modules/modules.json", "okara: failed: module \"m\" is read from .terraform/x, which is not in its package"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newRemote(t, runtest.Script{
				"init": {{Sh: "rm -rf .terraform x && mkdir -p .terraform/modules/m && echo '# text' >.terraform/modules/m/main.tf && echo '" + installed + "' >.terraform/modules/modules.json; " + c.more}},
				"plan": {{Print: "planned"}},
			}, files)
			if r, log := tr.run(); !strings.HasPrefix(log, c.want) || (r.Outcome == lifecycle.Done) != (c.more == "") {
				t.Errorf("%+v\n%s", r, log)
			}
		})
	}
	tr := newRemote(t, runtest.Script{"plan": {{Print: "planned"}}}, nil)
	for value, want := range map[string]string{"false": "planned\n", "true": "okara: failed: the configuration has no .okara.lock.hcl, which this run requires"} {
		b := fmt.Appendf(nil, `{"environment":{%q:%q}}`, sandbox.RequireLock, value)
		tr.order.Spec.Remote = &run.Remote{Organization: "acme", Workspace: "prod", RunID: "run-x.abc.1", Input: must.Get(tr.Repo.PutInput(t.Context(), "abc", b))(t)}
		if _, log := tr.run(); !strings.HasPrefix(log, want) {
			t.Errorf("required %s:\n%s", value, log)
		}
	}
}
