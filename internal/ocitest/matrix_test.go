// SPDX-License-Identifier: Apache-2.0

//go:build unix

package ocitest

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

// actions lists the tables of the page.
var actions = []string{"publish", "install", "lock race with a killed holder", "history", "signatures", "prune"}

// program is a client of the matrix; why: the reason of an action without function.
type program struct {
	name, path, version string
	missing             string // why it is not available, "" if it is
	do                  map[string]func(*bench, *program) error
	why                 map[string]string
}

type registry struct {
	name, host, missing string
	front               string // URL of okara serve in front of it
}

// bench is a pair of one client and one registry.
type bench struct {
	*matrix
	at   *registry
	name string // of the module and the state of this pair
	dir  string
}

// matrix holds what all pairs share.
type matrix struct {
	t                            *testing.T
	root, okara, home, source    string // source: a registry that tools copy from
	dist, key, cosign, cosignPub string
	n                            int
}

// TestMatrix runs clients against registries, and writes docs/reference/matrix.md to OKARA_MATRIX,
// with what `make matrix` builds. A failing pair fails no test.
func TestMatrix(t *testing.T) {
	file := os.Getenv("OKARA_MATRIX")
	if file == "" {
		t.Skip("OKARA_MATRIX is not set; `make matrix` sets it")
	}
	m := newMatrix(t)
	places, programs := m.places(), m.programs()
	results := map[string]string{}
	for _, p := range programs {
		for _, at := range places {
			m.n++
			b := &bench{matrix: m, at: at, name: fmt.Sprintf("m%d", m.n), dir: t.TempDir()}
			for _, action := range actions {
				results[action+p.name+at.name] = b.cell(p, action)
			}
		}
	}
	must.Succeed(t, os.WriteFile(file, []byte(page(places, programs, results)+m.runSettings()), 0o644))
}

func (b *bench) cell(p *program, action string) string {
	do := p.do[action]
	switch {
	case p.missing != "", b.at.missing != "":
		return "not here"
	case do == nil:
		return "–"
	}
	if err := do(b, p); err != nil {
		b.t.Logf("%s, %s, %s: %v", p.name, action, b.at.name, err)
		return b.plain(err.Error())
	}
	return "yes"
}

// plain replaces machine-specific parts of a text.
func (b *bench) plain(s string) string {
	for from, to := range map[string]string{b.at.host: "REGISTRY", b.source: "SOURCE", b.dir: "DIR", b.home: "HOME", "|": "/", "\n": " ", b.name: "NAME"} {
		s = strings.ReplaceAll(s, from, to)
	}
	r := []rune(passing.ReplaceAllString(s, "DIGEST"))
	if len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return string(r)
}

// last returns the most informative line of an output: the last error, or the last line.
func last(out string) string {
	if strings.Contains(out, "this backend is not in this build") {
		return "this Terraform is built without its s3 backend, in whose place okara stands: .ci/matrix.mk"
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	found := lines[len(lines)-1]
	for _, line := range lines {
		if strings.Contains(strings.ToLower(line), "error") {
			found = line
		}
	}
	return strings.TrimSpace(strings.Trim(found, "│╵╷ "))
}

// passing matches what differs between runs.
var passing = regexp.MustCompile(`(sha256[:-])?[0-9a-f]{64}|time="[^"]*"`)

const runLimit = 3 * time.Minute

func (m *matrix) command(dir string, env []string, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(m.t.Context(), runLimit)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"HOME=" + m.home, "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "NO_COLOR=1", "COSIGN_PASSWORD=",
		"DOCKER_CONFIG=" + os.Getenv("DOCKER_CONFIG"), "GNUPGHOME=" + filepath.Join(m.home, "gnupg"), "REGISTRY_AUTH_FILE=" + filepath.Join(m.home, "auth.json"), "TF_CLI_ARGS=-no-color",
	}, env...)
	return cmd, cancel
}

func (b *bench) run(env []string, args ...string) (string, error) { return b.in(b.dir, env, args...) }

func (m *matrix) in(dir string, env []string, args ...string) (string, error) {
	cmd, cancel := m.command(dir, env, args...)
	defer cancel()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s", last(string(out)+"\n"))
	}
	return string(out), nil
}

// all runs commands, each a list of arguments, until one fails.
func (b *bench) all(commands ...[]string) error {
	for _, c := range commands {
		if _, err := b.run(nil, c...); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) okaraOn(host string, args ...string) []string {
	return append(append([]string{b.okara}, args...), "--registry", host)
}
func (b *bench) module() string         { return "net/" + b.name + "/aws" }
func (b *bench) ref(host string) string { return host + "/modules/" + b.module() }

func newMatrix(t *testing.T) *matrix {
	root := must.Get(filepath.Abs("../.."))(t)
	m := &matrix{t: t, root: root, okara: filepath.Join(root, "bin", "okara"), home: t.TempDir(), source: New(t, Quirks{}), dist: filepath.Join(root, ".cache", "provider", "time", "0.14.2")}
	must.Succeed(t, os.MkdirAll(filepath.Join(m.home, "gnupg"), 0o700))
	for name, content := range map[string]string{"mod/main.tf": "output \"x\" {\n  value = 1\n}\n", "auth.json": "{}", "root.json": `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`} {
		write(t, filepath.Join(m.home, name), content)
	}
	for _, args := range [][]string{{"keys", "new", "--name", "matrix", "--dir", "keys"}, {"keys", "new", "--cosign", "--dir", "keys"}} {
		if out, err := m.in(m.home, nil, append([]string{m.okara}, args...)...); err != nil {
			t.Fatal(out)
		}
	}
	m.cosign, m.cosignPub = filepath.Join(m.home, "keys", "okara-cosign.key"), filepath.Join(m.home, "keys", "okara-cosign.pub")
	found, err := filepath.Glob(filepath.Join(m.home, "keys", "*.pub.asc"))
	if err != nil || len(found) != 1 {
		t.Fatalf("OpenPGP keys %v, %v", found, err)
	}
	m.key = strings.TrimSuffix(found[0], ".pub.asc") + ".asc"
	return m
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(t, os.WriteFile(file, []byte(content), 0o600))
}

// start runs a server on a free port until the test ends, and returns its host:port.
func (m *matrix) start(args func(host string) []string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	host := l.Addr().String()
	_ = l.Close()
	cmd, cancel := m.command(m.t.TempDir(), nil, args(host)...)
	cancel()
	cmd = exec.Command(cmd.Args[0], cmd.Args[1:]...)
	cmd.Dir, cmd.Env = m.t.TempDir(), append(os.Environ(), "HOME="+m.home)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: the error says so
	})
	for range 100 {
		if c, err := net.DialTimeout("tcp", host, time.Second); err == nil {
			_ = c.Close()
			return host, nil
		}
		if err := text.Wait(m.t.Context(), 100*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s does not listen", args(host)[0])
}

func (m *matrix) places() []*registry {
	distribution := func(path string, deletes bool) func() (string, error) {
		return func() (string, error) {
			return m.start(func(host string) []string {
				file := filepath.Join(m.t.TempDir(), "config.yml")
				write(m.t, file, fmt.Sprintf("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s\n  delete:\n    enabled: %v\nhttp:\n  addr: %s\n", m.t.TempDir(), deletes, host))
				return []string{path, "serve", file}
			})
		}
	}
	memory := func() (string, error) {
		s := httptest.NewServer(Memory())
		m.t.Cleanup(s.Close)
		return s.Listener.Addr().String(), nil
	}
	builtIn := func() (string, error) {
		return m.start(func(host string) []string {
			return []string{m.okara, "serve", "--listen", host, "--storage", m.t.TempDir()}
		})
	}
	refusing := func() (string, error) {
		return NewRefusing(m.t, Refusals{Immutable: []string{"*"}, NoUntag: true}).Host, nil
	}
	v3 := filepath.Join(m.root, ".cache", "registry", "3.1.2", "registry")
	var all []*registry
	for _, p := range []struct {
		name  string
		start func() (string, error)
	}{
		{"distribution 2.8", distribution("docker-registry", false)},
		{"distribution 3.1", distribution(v3, false)},
		{"distribution 3.1, deletes", distribution(v3, true)},
		{"ociregistry", memory},
		{"built-in", builtIn},
		{"refusing", refusing},
		{"of OKARA_MATRIX_REGISTRY", func() (string, error) {
			if os.Getenv("OKARA_MATRIX_REGISTRY") == "" {
				return "", fmt.Errorf("the variable names none")
			}
			return os.Getenv("OKARA_MATRIX_REGISTRY"), nil
		}},
	} {
		at := &registry{name: p.name}
		host, err := p.start()
		if at.host = host; err != nil {
			at.missing = err.Error()
		}
		if err == nil && p.name != "built-in" {
			at.front, err = m.start(func(listen string) []string {
				return []string{m.okara, "serve", "--listen", listen, "--registry", host, "--storage", m.t.TempDir()}
			})
			if err != nil {
				at.missing = err.Error()
			}
		} else {
			at.front = host
		}
		all = append(all, at)
	}
	return all
}

// find looks for a program on PATH and in the folder where `make` builds.
func (m *matrix) find(p *program, names ...string) *program {
	p.missing = "neither on PATH nor built by `make matrix`"
	for _, name := range names {
		path := name
		if strings.Contains(name, "/") {
			path = filepath.Join(m.root, ".cache", name)
		}
		if found, err := exec.LookPath(path); err == nil {
			p.path, p.missing = found, ""
			return p
		}
	}
	return p
}

// says extracts the version of a program from its output.
func (m *matrix) says(p *program, args ...string) *program {
	if p.missing != "" {
		return p
	}
	p.version = "not told"
	if b, err := buildinfo.ReadFile(p.path); err == nil {
		p.version = strings.TrimPrefix(b.Main.Version, "v")
	}
	if p.name == "Renovate" {
		args = []string{"-p", "require(process.argv[1] + '/node_modules/renovate/package.json').version", os.Getenv("OKARA_MATRIX_RENOVATE")}
	}
	out, err := m.in(m.home, nil, append([]string{p.path}, args...)...)
	if err != nil {
		p.missing = err.Error()
		return p
	}
	reported := false
	for line := range strings.SplitSeq(out, "\n") {
		for word := range strings.FieldsSeq(strings.NewReplacer("(", " ", ")", " ", ",", " ", `"`, " ").Replace(line)) {
			if v := strings.TrimPrefix(word, "v"); !reported && strings.Count(v, ".") >= 2 && v[0] >= '0' && v[0] <= '9' {
				p.version, reported = v, true
			}
		}
	}
	return p
}

func (m *matrix) programs() []*program {
	own := &program{name: "okara", path: m.okara, do: map[string]func(*bench, *program) error{
		"publish": (*bench).publish, "install": (*bench).pull, "history": (*bench).push, "signatures": (*bench).sign, "prune": (*bench).prune,
	}, why: map[string]string{"lock race with a killed holder": "the tools hold locks"}}
	all := []*program{m.says(own, "version")}
	reads := map[string]string{"publish": "reads only", "prune": "`okara state prune`, as for okara"}
	tool := map[string]func(*bench, *program) error{"install": (*bench).init, "lock race with a killed holder": (*bench).race, "history": (*bench).history, "signatures": (*bench).init}
	for _, v := range []string{"1.10.10", "1.11.6", "1.12.6"} {
		all = append(all, m.says(m.find(&program{name: "OpenTofu " + v[:4], do: tool, why: reads}, "tofu/"+v+"/tofu"), "version"))
	}
	all = append(all,
		m.says(m.find(&program{name: "Terraform 1.11", do: tool, why: reads}, "bin/terraform-1.11", "terraform/1.11.4/terraform"), "version"),
		m.says(m.find(&program{name: "Terraform 1.16", do: tool, why: reads}, "bin/terraform-1.16", "terraform/1.16.4/terraform"), "version"),
		m.says(m.find(&program{name: "Terraform on PATH", do: tool, why: reads}, "terraform"), "version"),
		m.says(m.find(&program{name: "Terragrunt", do: map[string]func(*bench, *program) error{"history": (*bench).terragrunt}, why: map[string]string{
			"publish": "reads only", "install": "the tool does", "lock race with a killed holder": "the tool does", "signatures": "the tool does", "prune": "as for okara",
		}}, "terragrunt", "bin/terragrunt"), "--version"),
		m.says(m.find(&program{name: "Renovate", do: map[string]func(*bench, *program) error{"install": (*bench).renovate}, why: map[string]string{
			"publish": "reads only", "lock race with a killed holder": "has no state", "history": "has no state", "signatures": "checks none", "prune": "reads only",
		}}, "node"), "--version"))
	for _, c := range []struct {
		name, version             string
		copy, get, signed, remove []string
	}{
		{name: "oras", version: "version", copy: []string{"cp", "-r", "--from-plain-http", "--to-plain-http", "FROM", "TO"}, get: []string{"pull", "--plain-http", "TO", "-o", "OUT"}, remove: []string{"manifest", "delete", "--plain-http", "-f", "TO"}},
		{name: "crane", version: "version", copy: []string{"copy", "--insecure", "FROM", "TO"}, get: []string{"manifest", "--insecure", "TO"}, signed: []string{"copy", "--insecure", "FROMSIG", "TOSIG"}, remove: []string{"delete", "--insecure", "TO"}},
		{name: "regctl", version: "version", copy: []string{"image", "copy", "--referrers", "--digest-tags", "--host", "reg=FROMHOST,tls=disabled", "--host", "reg=TOHOST,tls=disabled", "FROM", "TO"}, get: []string{"artifact", "get", "--host", "reg=TOHOST,tls=disabled", "TO", "-o", "OUT"}, remove: []string{"tag", "delete", "--host", "reg=TOHOST,tls=disabled", "TO"}},
		{name: "skopeo", version: "--version", copy: []string{"copy", "--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false", "docker://FROM", "docker://TO"}, get: []string{"copy", "--src-tls-verify=false", "docker://TO", "oci:OUT"}, signed: []string{"copy", "--src-tls-verify=false", "--dest-tls-verify=false", "docker://FROMSIG", "docker://TOSIG"}, remove: []string{"delete", "--tls-verify=false", "docker://TO"}},
	} {
		all = append(all, m.says(m.find(&program{name: c.name, do: map[string]func(*bench, *program) error{
			"publish": func(b *bench, p *program) error { return b.copied(p, c.copy) },
			"install": func(b *bench, p *program) error {
				if err := os.MkdirAll(filepath.Join(b.dir, "out"), 0o700); err != nil {
					return err
				}
				return b.tool(p, c.get)
			},
			"signatures": func(b *bench, p *program) error { return b.copiedSignature(p, c.signed) },
			"prune":      func(b *bench, p *program) error { return b.tool(p, c.remove) },
		}, why: map[string]string{"lock race with a killed holder": "has no locks", "history": "has no states"}}, c.name, "bin/"+c.name), c.version))
	}
	signer := map[string]string{"publish": "signs only", "install": "signs only", "lock race with a killed holder": "signs only", "history": "signs only", "prune": "signs only"}
	all = append(all,
		m.says(m.find(&program{name: "cosign 2", do: map[string]func(*bench, *program) error{"signatures": func(b *bench, p *program) error {
			return b.cosigned(p, "--tlog-upload=false", "--allow-http-registry")
		}}, why: signer}, "cosign2", "bin/cosign2", "cosign/2.6.5/cosign"), "version"),
		m.says(m.find(&program{name: "cosign 3", do: map[string]func(*bench, *program) error{"signatures": func(b *bench, p *program) error {
			if _, err := b.run(nil, p.path, "signing-config", "create", "--out", "sc.json"); err != nil {
				return err
			}
			return b.cosigned(p, "--signing-config", "sc.json", "--trusted-root", filepath.Join(b.home, "root.json"), "--allow-http-registry")
		}}, why: signer}, "cosign3", "bin/cosign3"), "version"),
		m.says(m.find(&program{name: "gpg", do: map[string]func(*bench, *program) error{"signatures": (*bench).gpg}, why: signer}, "gpg"), "--version"),
	)
	return append(all,
		&program{name: "Flux", missing: "`TestFlux` in `internal/conformance` has its library, `make interop-kube` its controllers"},
		&program{name: "go-tfe, tfe provider", missing: "they speak tfe.v2 to `okara serve`, whatever registry is behind it: `TestCloud` in `internal/e2e`"},
		&program{name: "tflint", missing: "it asks no registry: it reads what `init` left"})
}

func (b *bench) publish(*program) error {
	return b.all(b.okaraOn(b.at.host, "publish", "module", filepath.Join(b.home, "mod"), b.module(), "1.0.0"),
		b.okaraOn(b.at.host, "publish", "module", filepath.Join(b.home, "mod"), b.module(), "1.1.0"))
}

func (b *bench) pull(*program) error {
	return b.all(b.okaraOn(b.at.host, "pull", b.module()+"@1.0.0", "pulled"))
}

func (b *bench) sign(*program) error {
	return b.all(b.okaraOn(b.at.host, "sign", b.module()+"@1.0.0", "--cosign-key", b.cosign),
		b.okaraOn(b.at.host, "verify", b.module()+"@1.0.0", "--cosign-key", b.cosignPub, "--require", "cosign"))
}

func (b *bench) prune(*program) error {
	return b.all(b.okaraOn(b.at.host, "admin", "prune", b.module(), "--keep", "1", "-y"))
}

func (b *bench) state() string { return b.at.host + "/state/" + b.name }

// push stores two versions of a state.
func (b *bench) push(*program) error {
	for serial := range 2 {
		write(b.t, filepath.Join(b.dir, "s.tfstate"), fmt.Sprintf(`{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"%s","outputs":{},"resources":[]}`, serial+1, b.name))
		if _, err := b.run(nil, b.okara, "state", "push", b.state(), "s.tfstate"); err != nil {
			return err
		}
	}
	return b.versions(2)
}

func (b *bench) versions(atLeast int) error {
	out, err := b.run(nil, b.okara, "state", "history", b.state(), "--json", "-q")
	if err == nil && strings.Count(out, `"digest"`) < atLeast {
		err = fmt.Errorf("%d versions, want %d", strings.Count(out, `"digest"`), atLeast)
	}
	return err
}

// init installs a module and a signed provider through okara serve.
func (b *bench) init(p *program) error {
	if _, err := b.run(nil, b.okaraOn(b.at.host, "publish", "provider", b.dist, "acme/time", "0.14.2", "--sign-key", b.key)...); err != nil {
		return err
	}
	if err := b.publish(p); err != nil {
		return err
	}
	write(b.t, filepath.Join(b.dir, "init", "main.tf"), fmt.Sprintf("terraform {\n  required_providers {\n    time = { source = \"okara.test/acme/time\" }\n  }\n}\nmodule \"x\" {\n  source  = \"okara.test/%s\"\n  version = \"1.0.0\"\n}\n", b.module()))
	if _, err := b.run(nil, b.okara, "cli-config", "http://"+b.at.front, "--hostname", "okara.test", "--write", "okara.tfrc"); err != nil && !strings.Contains(err.Error(), "exists") {
		return err
	}
	// The front-end rereads its tag list when its cache expires.
	var out string
	var err error
	for range 12 {
		_ = os.RemoveAll(filepath.Join(b.dir, "init", ".terraform"))
		if out, err = b.in(filepath.Join(b.dir, "init"), []string{"TF_CLI_CONFIG_FILE=" + filepath.Join(b.dir, "okara.tfrc")}, p.path, "init", "-backend=false"); err == nil {
			break
		}
		if err := text.Wait(b.t.Context(), 3*time.Second); err != nil {
			return err
		}
	}
	if err == nil && !strings.Contains(out, "key ID") {
		err = fmt.Errorf("it does not say who signed the provider")
	}
	return err
}

func (b *bench) wrapped(p *program) (env, apply []string) {
	kind, variable := "tofu", "OKARA_TOFU="
	if strings.HasPrefix(p.name, "Terraform") {
		kind, variable = "terraform", "OKARA_TERRAFORM="
	}
	return []string{variable + p.path}, []string{b.okara, kind, "-chdir=" + filepath.Join(b.dir, "state")}
}

func (b *bench) configure(command string) {
	write(b.t, filepath.Join(b.dir, "state", "main.tf"), fmt.Sprintf("terraform {\n  backend \"oci\" {\n    repository = %q\n  }\n}\nvariable \"n\" {}\nresource \"terraform_data\" \"x\" {\n  triggers_replace = var.n\n  provisioner \"local-exec\" {\n    command = %q\n  }\n}\n", b.state(), command))
}

// race kills a run with the lock: the next is refused until a command breaks it.
func (b *bench) race(p *program) error {
	env, tool := b.wrapped(p)
	b.configure("true")
	for _, args := range [][]string{{"init"}, {"apply", "-auto-approve", "-var=n=1"}} {
		if _, err := b.run(env, append(tool, args...)...); err != nil {
			return err
		}
	}
	b.configure("sleep 120")
	cmd, cancel := b.command(b.dir, env, append(tool, "apply", "-auto-approve", "-var=n=2")...)
	defer cancel()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	held := false
	for range 60 {
		out, _ := b.run(nil, b.okara, "state", "show", b.state()) // the loop ends with an error if this fails
		if held = strings.Contains(out, "held by"); held {
			break
		}
		if err := text.Wait(b.t.Context(), 500*time.Millisecond); err != nil {
			return err
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	_ = cmd.Wait()                                      // killed: the error says so
	if !held {
		return fmt.Errorf("no lock is seen while a run holds it")
	}
	b.configure("true")
	if _, err := b.run(env, append(tool, "apply", "-auto-approve", "-var=n=3")...); err == nil {
		return fmt.Errorf("a run began while a dead one held the lock")
	}
	if _, err := b.run(nil, b.okara, "state", "unlock", b.state(), "--take-over", "--yes"); err != nil {
		return err
	}
	_, err := b.run(env, append(tool, "apply", "-auto-approve", "-var=n=3")...)
	return err
}

func (b *bench) history(*program) error { return b.versions(2) }

func (b *bench) terragrunt(p *program) error {
	tofu := m112(b)
	b.configure("true")
	write(b.t, filepath.Join(b.dir, "state", "terragrunt.hcl"), "inputs = {\n  n = \"1\"\n}\n")
	cmd := []string{b.okara, "exec", "--", p.path, "run", "--all", "--non-interactive", "--tf-path", "tofu", "--", "apply", "-auto-approve"}
	if out, err := b.in(filepath.Join(b.dir, "state"), []string{"OKARA_TOFU=" + tofu, "PATH=" + filepath.Dir(tofu) + ":" + os.Getenv("PATH")}, cmd...); err != nil {
		b.t.Log(out)
		return err
	}
	return b.versions(1)
}

func m112(b *bench) string { return filepath.Join(b.root, ".cache", "tofu", "1.12.6", "tofu") }

// renovate asks Renovate's own data source for the versions of a module.
func (b *bench) renovate(p *program) error {
	folder := os.Getenv("OKARA_MATRIX_RENOVATE")
	if err := b.publish(p); err != nil {
		return err
	}
	write(b.t, filepath.Join(b.dir, "look.js"), fmt.Sprintf(`
const path = %q + '/node_modules/renovate/dist/';
(async () => {
  const logger = require(path + 'logger'); if (logger.init) await logger.init();
  const g = require(path + 'config/global'); g.GlobalConfig.set({cacheDir: %q});
  const { TerraformModuleDatasource } = require(path + 'modules/datasource/terraform-module');
  const r = await new TerraformModuleDatasource().getReleases({packageName: %q, registryUrl: %q});
  console.log(JSON.stringify(r));
  process.exit(r && r.releases.length == 2 ? 0 : 1);
})().catch(e => { console.error('error: ' + e.message); process.exit(1); });
`, folder, b.dir, b.module(), "http://"+b.at.front))
	_, err := b.run([]string{"LOG_LEVEL=fatal"}, p.path, "look.js")
	return err
}

func (b *bench) words(args []string) []string {
	sig := func(host string) string { return b.ref(host) + ":" + b.signature() }
	r := strings.NewReplacer("FROMHOST", b.source, "TOHOST", b.at.host, "FROMSIG", sig(b.source), "TOSIG", sig(b.at.host),
		"FROM", b.ref(b.source)+":1.0.0", "TO", b.ref(b.at.host)+":1.0.0", "OUT", filepath.Join(b.dir, "out"))
	var out []string
	for _, a := range args {
		out = append(out, r.Replace(a))
	}
	return out
}

// signature returns the tag of the signature of the module in the source registry.
func (b *bench) signature() string {
	out, err := b.run(nil, b.okaraOn(b.source, "show", b.module()+"@1.0.0", "--json", "-q")...)
	_, rest, ok := strings.Cut(out, "@sha256:")
	if err != nil || !ok || len(rest) < 64 {
		return "none"
	}
	return "sha256-" + rest[:64] + ".sig"
}

func (b *bench) tool(p *program, args []string) error {
	_, err := b.run(nil, append([]string{p.path}, b.words(args)...)...)
	return err
}

// copied copies a signed module and a provider for two platforms into the registry.
func (b *bench) copied(p *program, args []string) error {
	if err := b.all(b.okaraOn(b.source, "publish", "module", filepath.Join(b.home, "mod"), b.module(), "1.0.0"),
		b.okaraOn(b.source, "sign", b.module()+"@1.0.0", "--cosign-key", b.cosign),
		b.okaraOn(b.source, "publish", "provider", b.dist, b.name+"/time", "0.14.2", "--sign-key", b.key)); err != nil {
		return err
	}
	if err := b.tool(p, args); err != nil {
		return err
	}
	provider := make([]string, len(args))
	for i, a := range b.words(args) {
		provider[i] = strings.ReplaceAll(strings.ReplaceAll(a, "/modules/"+b.module()+":1.0.0", "/providers/"+b.name+"/time:0.14.2"), "/modules/"+b.module(), "/providers/"+b.name+"/time")
	}
	if _, err := b.run(nil, append([]string{p.path}, provider...)...); err != nil {
		return err
	}
	out, err := b.run(nil, b.okaraOn(b.at.host, "show", b.name+"/time@0.14.2")...)
	if err == nil && (!strings.Contains(out, "linux_amd64") || !strings.Contains(out, "darwin_arm64")) {
		err = fmt.Errorf("the copy of a provider has lost platforms")
	}
	return err
}

func (b *bench) copiedSignature(p *program, args []string) error {
	if args != nil {
		if err := b.tool(p, args); err != nil {
			return err
		}
	}
	return b.all(b.okaraOn(b.at.host, "verify", b.module()+"@1.0.0", "--cosign-key", b.cosignPub, "--require", "cosign"))
}

// cosigned verifies okara's signature with cosign, and cosign's signature with okara.
func (b *bench) cosigned(p *program, flags ...string) error {
	if err := b.publish(p); err != nil {
		return err
	}
	if err := b.sign(p); err != nil {
		return err
	}
	out, err := b.run(nil, b.okaraOn(b.at.host, "show", b.module()+"@1.0.0", "--json", "-q")...)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(out, "@sha256:")
	ref := b.ref(b.at.host) + "@sha256:" + rest[:min(64, len(rest))]
	return b.all(
		[]string{p.path, "verify", "--key", b.cosignPub, "--insecure-ignore-tlog=true", "--trusted-root", filepath.Join(b.home, "root.json"), "--allow-http-registry", ref},
		[]string{p.path, "generate-key-pair"},
		append(append([]string{p.path, "sign", "--yes", "--key", "cosign.key"}, flags...), ref),
		b.okaraOn(b.at.host, "verify", b.module()+"@1.0.0", "--cosign-key", "cosign.pub", "--require", "cosign"))
}

func (b *bench) gpg(p *program) error {
	public := strings.TrimSuffix(b.key, ".asc") + ".pub.asc"
	if err := b.all(b.okaraOn(b.at.host, "publish", "provider", b.dist, b.name+"/time", "0.14.2", "--sign-key", b.key),
		b.okaraOn(b.at.host, "pull", b.name+"/time@0.14.2", "provider"), []string{p.path, "--batch", "--import", public}); err != nil {
		return err
	}
	sums := "provider/terraform-provider-time_0.14.2_SHA256SUMS"
	return b.all([]string{p.path, "--batch", "--verify", sums + ".sig", sums})
}

// page renders docs/reference/matrix.md.
func page(places []*registry, programs []*program, results map[string]string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# Clients and registries\n\nA record of one run of `make matrix`, on %s, %s/%s. Each cell is what the real program did\nthere: yes, or its own words.\n\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH)
	s.WriteString("|client|version|\n|---|---|\n")
	for _, p := range programs {
		version := p.version
		if p.missing != "" {
			version = "not here: " + p.missing
		}
		fmt.Fprintf(&s, "|%s|%s|\n", p.name, version)
	}
	s.WriteString("\n`refusing` is a registry whose tags neither move nor go, as Harbor's can be told to. Where tags do\nnot go, `okara admin prune` withdraws the versions.\n")
	for _, at := range places {
		if at.missing != "" {
			fmt.Fprintf(&s, "The registry %s is not in this run: %s.\n", at.name, at.missing)
		}
	}
	notes := map[string]int{}
	var order []string
	for _, action := range actions {
		fmt.Fprintf(&s, "\n## %s\n\n|client|", strings.ToUpper(action[:1])+action[1:])
		for _, at := range places {
			if at.missing == "" {
				fmt.Fprintf(&s, "%s|", at.name)
			}
		}
		s.WriteString("\n|---|" + strings.Repeat("---|", len(places)-absent(places)) + "\n")
		for _, p := range programs {
			if p.missing != "" || p.do[action] == nil {
				continue
			}
			fmt.Fprintf(&s, "|%s|", p.name)
			for _, at := range places {
				if at.missing != "" {
					continue
				}
				cell := results[action+p.name+at.name]
				if cell != "yes" {
					if notes[cell] == 0 {
						order = append(order, cell)
						notes[cell] = len(order)
					}
					cell = fmt.Sprintf("no (%d)", notes[cell])
				}
				fmt.Fprintf(&s, "%s|", cell)
			}
			s.WriteString("\n")
		}
		s.WriteString("\n" + untried(programs, action))
	}
	if len(order) > 0 {
		s.WriteString("\n## Why not\n\n")
	}
	for i, note := range order {
		fmt.Fprintf(&s, "%d. `%s`\n", i+1, strings.ReplaceAll(note, "`", "'"))
	}
	return s.String()
}

// untried lists the reasons why available programs do not perform an action.
func untried(programs []*program, action string) string {
	var all []string
	for _, p := range programs {
		if p.missing == "" && p.do[action] == nil {
			all = append(all, p.name+" ("+p.why[action]+")")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "Not: " + strings.Join(all, ", ") + ".\n"
}

func absent(places []*registry) (n int) {
	for _, at := range places {
		if at.missing != "" {
			n++
		}
	}
	return n
}
