// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
)

// moduleRig has one module at every kind of source, whose content follows a version.
type moduleRig struct {
	t              *testing.T
	server         *serveProcess
	work, zipped   string // folder of the module in git, and address of the zip
	oci, trust     string // source of the module in the registry, and the file of its certificate
	answer, config []byte
	tool           tofutest.Stock
}

func newModuleRig(t *testing.T, tool tofutest.Stock) *moduleRig {
	r := &moduleRig{t: t, tool: tool, work: filepath.Join(t.TempDir(), "git"), server: newServeProcess(t, nil, "--storage", t.TempDir())}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(r.answer) }))
	t.Cleanup(web.Close)
	r.zipped = web.URL + "/module.zip"
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(must.Get(url.Parse(r.server.url))(t)))
	t.Cleanup(front.Close)
	r.oci = "oci://" + strings.TrimPrefix(front.URL, "https://") + "/modules/net/vpc/aws?tag=1.0.0"
	r.trust = newFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	r.config = fmt.Appendf(nil, "# mine\nhost \"okara.test\" {\n  services = { \"modules.v1\" = \"%s/v1/modules/\" }\n}\n", r.server.url)
	must.Succeed(t, os.MkdirAll(filepath.Join(r.work, "sub"), 0o755))
	r.git("init", "-q", "-b", "main")
	r.release("1.0.0")
	return r
}

func (r *moduleRig) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-C", r.work}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// release publishes a version everywhere: a branch moves, a zip is replaced.
func (r *moduleRig) release(version string) {
	r.t.Helper()
	text := []byte("output \"v\" {\n  value = \"" + version + "\"\n}\n")
	for _, name := range []string{"main.tf", "sub/main.tf", ".tflint.hcl"} {
		must.Succeed(r.t, os.WriteFile(filepath.Join(r.work, name), text, 0o644))
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", version)
	r.git("tag", "v"+version)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	must.Get(must.Get(z.Create("main.tf"))(r.t).Write(text))(r.t)
	must.Succeed(r.t, z.Close())
	r.answer = b.Bytes()
	registry := strings.TrimPrefix(r.server.url, "http://")
	if version != "0.9.0" {
		mustOkara(r.t, "publish", "module", r.work, "net/vpc/aws", version, "--registry", registry)
		return
	}
	old := depot.New(depot.Options{Client: must.Get(oci.New(registry, oci.Options{PlainHTTP: true}))(r.t)}) // as a program that kept no hash
	_ = must.Get(old.PublishModule(r.t.Context(), os.DirFS(r.work), addr.ModuleVersion{Module: must.Get(addr.ParseModule("net/vpc/aws"))(r.t), Version: must.Get(addr.ParseVersion(version))(r.t)}, depot.ModuleOptions{Annotations: map[string]string{"vnd.okara.h1": ""}}))(r.t)
}

// root makes a root module with calls, and the lock of another one unless it is "".
func (r *moduleRig) root(calls, from string) string {
	dir := r.t.TempDir()
	must.Succeed(r.t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(calls), 0o644))
	if from != "" {
		must.Succeed(r.t, os.WriteFile(filepath.Join(dir, ".okara.lock.hcl"), must.Get(os.ReadFile(filepath.Join(from, ".okara.lock.hcl")))(r.t), 0o644))
	}
	return dir
}

// run runs okara in a root module, and fails if the output lacks a text or the outcome is another.
func (r *moduleRig) run(dir string, fails bool, want string, args ...string) {
	r.t.Helper()
	config := filepath.Join(r.work, ".git", "cli.tfrc")
	must.Succeed(r.t, os.WriteFile(config, r.config, 0o600))
	cmd := exec.Command("okara", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+r.t.TempDir(), "SSL_CERT_FILE="+r.trust, "OKARA_TOFU="+r.tool.Path, "OKARA_TERRAFORM="+r.tool.Path, "TF_CLI_CONFIG_FILE="+config, "TF_INPUT=0", "TF_CLI_ARGS=-no-color", "CHECKPOINT_DISABLE=1")
	out, err := cmd.CombinedOutput()
	if fails != (err != nil) || !strings.Contains(string(out), want) {
		r.t.Errorf("okara %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
	}
	if after := must.Get(os.ReadFile(config))(r.t); !bytes.Equal(after, r.config) {
		r.t.Errorf("the user's CLI configuration is now %s", after)
	}
}

// TestTofuModuleLock: with a lock the same modules are installed everywhere, or the tool does not run.
// A registry's version is selected; of other sources the files are compared.
func TestTofuModuleLock(t *testing.T) {
	for _, tool := range tofutest.StockTools(t) {
		t.Run(tool.Name, func(t *testing.T) {
			r := newModuleRig(t, tool)
			const call = "module %q {\n  source = %q\n}\noutput %[1]q {\n  value = module.%[1]s.v\n}\n"
			const versioned = "module %q {\n  source  = \"okara.test/net/vpc/aws%s\"\n  version = %q\n}\noutput %[1]q {\n  value = module.%[1]s.v\n}\n"
			sources := map[string]string{
				"registry": fmt.Sprintf(versioned, "m", "", "~> 1.0"), "registry, folder": fmt.Sprintf(versioned, "m", "//sub", "~> 1.0"),
				"two versions": fmt.Sprintf(versioned, "m", "", "~> 1.0") + fmt.Sprintf(versioned, "old", "", "0.9.0"),
				"git, tag":     fmt.Sprintf(call, "m", "git::file://"+r.work+"?ref=v1.0.0"), "git, branch": fmt.Sprintf(call, "m", "git::file://"+r.work+"?ref=main"),
				"git, folder": fmt.Sprintf(call, "m", "git::file://"+r.work+"//sub?ref=v1.0.0"), "zip": fmt.Sprintf(call, "m", r.zipped),
			}
			if tool.Name == "tofu" { // Terraform knows neither
				sources["oci"] = fmt.Sprintf(call, "m", r.oci)
				sources["dynamic"] = "variable \"range\" {\n  default = \"~> 1.0\"\n}\n" + strings.Replace(fmt.Sprintf(versioned, "m", "", "RANGE"), `"RANGE"`, "var.range", 1)
			}
			r.release("0.9.0")
			r.git("tag", "-d", "v0.9.0")
			must.Succeed(t, os.WriteFile(filepath.Join(r.work, "main.tf"), []byte("output \"v\" {\n  value = \"1.0.0\"\n}\n"), 0o644))
			firsts := map[string]string{}
			for name, calls := range sources {
				dir := r.root(calls, "")
				firsts[name] = dir
				r.run(dir, false, "", tool.Name, "init")
				r.run(dir, false, "call", "lock", "--modules")
				r.run(dir, false, "", "lock", "--modules", "--check")
				r.run(dir, false, "", tool.Name, "plan")
				found := filepath.Join(dir, ".terraform", "modules", "m", "main.tf")
				before := must.Get(os.ReadFile(found))(t)
				must.Succeed(t, os.WriteFile(found, append(before, '#'), 0o644))
				if published := []string{"lock", "--modules", "--own-host", "Okara.test", "--registry", strings.TrimPrefix(r.server.url, "http://")}; name == "two versions" {
					r.run(dir, true, " is installed as h1:", append(published, "--upgrade")...)
					must.Succeed(t, os.WriteFile(found, before, 0o644))
					r.run(dir, false, "", append(published, "--check")...)
					r.run(dir, false, "", published...)
					if lock := string(must.Get(os.ReadFile(filepath.Join(dir, ".okara.lock.hcl")))(t)); strings.Count(lock, "oci:sha256:") != 2 {
						t.Errorf("the lock is\n%s", lock)
					}
					must.Succeed(t, os.Remove(filepath.Join(dir, ".terraform", "modules", "m", ".tflint.hcl"))) // as of a second call
					r.run(dir, false, "", append(published, "--check")...)
					r.run(dir, true, "no installed module is from the host okara.tset", append(published, "--own-host", "okara.tset")...)
					r.run(dir, true, "a policy requires --own-host", "lock", "--modules", "--require", "scan")
					must.Succeed(t, os.WriteFile(found, append(before, '#'), 0o644))
				}
				r.run(dir, true, `module "m": `, tool.Name, "plan")
				r.run(dir, true, `module "m": `, "lock", "--modules", "--check")
				r.run(dir, true, "accept them with --upgrade", "lock", "--modules")
				must.Succeed(t, os.WriteFile(found, before, 0o644))
			}
			racing := r.root(sources["zip"]+"resource \"terraform_data\" \"other\" {\n  provisioner \"local-exec\" {\n    command = \"echo >>.terraform/modules/m/main.tf\"\n  }\n}\n", firsts["zip"])
			r.run(racing, false, "", tool.Name, "init")
			r.run(racing, true, "modules changed while apply ran, which may have read others: ", tool.Name, "apply", "-auto-approve")
			r.run(firsts["two versions"], false, "2 new", "mirror", "--lockfile", ".okara.lock.hcl", "--from", r.server.url+"/v1/modules/", "--registry", strings.TrimPrefix(r.server.url, "http://")+"/copy")
			r.release("1.1.0")
			for name, calls := range sources {
				moved := name == "git, branch" || name == "zip"
				dir := r.root(calls, firsts[name])
				if moved {
					r.run(dir, true, `module "m": `, tool.Name, "init")
					r.run(dir, true, `module "m": `, tool.Name, "plan")
				} else {
					r.run(dir, false, "", tool.Name, "init")
					r.run(dir, false, "", tool.Name, "apply", "-auto-approve")
					r.run(dir, false, "", "lock", "--modules", "--check")
				}
				r.run(dir, false, "", tool.Name, "init", "-upgrade")
				if name == "registry" { // this call alone, as -upgrade would for all
					one := r.root(calls, firsts[name])
					r.run(one, false, "", tool.Name, "init")
					r.run(one, true, "has no call or package", "lock", "--modules", "--upgrade=x")
					r.run(one, false, "unlocked m", "lock", "--modules", "--upgrade=m")
					r.run(one, false, "1.1.0", tool.Name, "init")
					r.run(one, false, "", "lock", "--modules")
					r.run(one, false, "", tool.Name, "plan")
				}
				if strings.HasPrefix(name, "registry") || name == "dynamic" {
					r.run(dir, true, "is installed as 1.1.0, .okara.lock.hcl has 1.0.0", tool.Name, "plan")
				}
				r.run(dir, false, "", "lock", "--modules", "--upgrade")
				r.run(dir, false, "", tool.Name, "plan")
				if name == "two versions" { // and then one
					must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), fmt.Appendf(nil, versioned, "old", "", "0.9.0"), 0o644))
					r.run(dir, false, "", tool.Name, "init")
					r.run(dir, false, "", tool.Name, "plan")
					r.run(dir, true, "but not installed", "lock", "--modules", "--check") // though the tools keep its record
					r.run(dir, false, "", "lock", "--modules")
					r.run(dir, false, "", "lock", "--modules", "--check")
				}
			}
			r.git("tag", "-f", "v1.0.0") // on what is 1.1.0: the old call keeps its files
			dir := firsts["git, tag"]
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "more.tf"), fmt.Appendf(nil, call, "more", "git::file://"+r.work+"?ref=v1.0.0"), 0o644))
			r.run(dir, true, `module "more": `, tool.Name, "init")
			r.run(dir, true, `module "more": `, "lock", "--modules")
			r.run(dir, false, "", "lock", "--modules", "--upgrade=more")
			r.run(dir, false, "", tool.Name, "plan")
		})
	}
}

// TestTofuModuleLockCommands: other ways to install select the locked versions too.
func TestTofuModuleLockCommands(t *testing.T) {
	for _, tool := range tofutest.StockTools(t) {
		t.Run(tool.Name, func(t *testing.T) {
			r := newModuleRig(t, tool)
			const call = "module \"m\" {\n  source  = \"okara.test/net/vpc/aws\"\n  version = \"~> 1.0\"\n}\n"
			write := func(dir, name, text string) {
				must.Succeed(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
			const run = "run \"used\" {\n  command = plan\n  module {\n    source  = \"okara.test/net/vpc/aws\"\n    version = \"~> 1.0\"\n  }\n  assert {\n    condition     = output.v == \"1.0.0\"\n    error_message = output.v\n  }\n}\n"
			first, tested := r.root(call, ""), r.root(call, "")
			write(first, "tests/a.tftest.hcl", run)
			for _, dir := range []string{first, tested} { // a call of the name with which the keys of tests begin
				write(dir, "test.tf", "module \"test\" {\n  source = \"./t\"\n}\n")
				write(dir, "t/main.tf", "")
			}
			r.run(first, false, "", tool.Name, "init")
			r.run(first, false, "2 calls, 1 package", "lock", "--modules")
			r.release("1.1.0")

			r.run(r.root(call, first), false, "unlocked m", "lock", "--modules", "--upgrade=m") // without any init
			got := r.root(call, first)
			r.run(got, false, "Downloading okara.test/net/vpc/aws 1.0.0 for m", tool.Name, "get")
			r.run(got, false, "", tool.Name, "validate")
			r.run(got, false, "is installed as 1.1.0", tool.Name, "get", "-update")
			r.run(got, true, "is installed as 1.1.0", tool.Name, "validate")

			write(tested, ".okara.lock.hcl", string(must.Get(os.ReadFile(filepath.Join(first, ".okara.lock.hcl")))(t)))
			write(tested, "tests/a.tftest.hcl", run)
			r.run(tested, false, "", tool.Name, "init")
			r.run(tested, false, "1 passed", tool.Name, "test")
			key := must.Get(filepath.Glob(filepath.Join(tested, ".terraform/modules/test.*")))(t)
			write(key[0], "main.tf", "output \"v\" {\n  value = \"1.0.0\" # else\n}\n")
			r.run(tested, true, `module "`+filepath.Base(key[0])+`": okara.test/net/vpc/aws is installed as h1:`, tool.Name, "test")

			roots := t.TempDir()
			for _, name := range []string{"a", "b"} { // as Terragrunt does in its folders
				must.Succeed(t, os.Rename(r.root(call, first), filepath.Join(roots, name)))
			}
			r.run(roots, false, "1.0.0 for m", tool.Name, "-chdir=a", "init")
			r.run(filepath.Join(roots, "b"), false, "1.0.0 for m", tool.Name, "init")
			write(roots, "b/.terraform/modules/m/main.tf", "# else\n")
			r.run(roots, false, "", tool.Name, "-chdir=a", "validate")
			r.run(roots, true, `module "m"`, tool.Name, "-chdir=b", "validate")
		})
	}
}
