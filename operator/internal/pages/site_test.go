// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// patience bounds each wait of the fixture. The pages have their own bounds.
const patience = 4 * time.Minute

// site is a cluster with Flux, okara serve, a forge, and the operator.
type site struct {
	t        *testing.T // the test of all pages
	dir      string
	config   *rest.Config
	okara    string // HOST:PORT of okara serve
	forge    *httptest.Server
	operator *exec.Cmd
	words    *strings.Replacer // from names on the pages to those here
	left     map[string]string // examples that no page has contained so far
	ends     []string          // commands that remove everything
}

// newSite starts everything except the operator, which the pages install.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), left: maps.Clone(examples)}
	for _, name := range []string{"okara", "okara-operator"} {
		if _, err := os.Stat(filepath.Join(rig.Root(), "bin", name)); err != nil {
			t.Skipf("%s is not built: make interop-kube builds it", name)
		}
	}
	s.config = cluster.With(t, rig.Manager, rig.Source, rig.Helm, rig.Tofu)
	rig.InstallOthers(t, s.config)
	s.makeForge()
	s.serve()
	s.words = strings.NewReplacer(
		"https://okara.example.com", "http://"+s.okara,
		"registry.example.com/platform", s.okara,
		"registry.example.com", s.okara,
		"github.com/terraform-aws-modules/terraform-aws-vpc", s.source(),
		"git.internal:8443", s.forge.Listener.Addr().String(),
	)
	return s
}

// path returns the path of a file of the site, and creates its folder.
func (s *site) path(elem ...string) string {
	s.t.Helper()
	path := filepath.Join(append([]string{s.dir}, elem...)...)
	must.Succeed(s.t, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

func (s *site) write(text string, elem ...string) {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(s.path(elem...), []byte(text), 0o600))
}

// env returns the environment of every program, without the user's own configuration.
func (s *site) env(user string) []string {
	s.t.Helper()
	path := []string{filepath.Join(rig.Root(), "bin"), rig.Programs(s.t, "kubectl"), rig.Programs(s.t, "helm"), os.Getenv("PATH")}
	return []string{
		"HOME=" + filepath.Dir(s.path("home", "x")), "TMPDIR=" + os.TempDir(), "PATH=" + strings.Join(path, string(os.PathListSeparator)),
		"KUBECONFIG=" + s.kubeconfig(user), "DOCKER_CONFIG=" + s.dir, "OKARA_REGISTRY=" + s.okara, "PASSWORD=secret",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "CHECKPOINT_DISABLE=1",
	}
}

// kubeconfig is a user's way to the cluster; "": an administrator.
func (s *site) kubeconfig(user string) string {
	s.t.Helper()
	file := s.path("users", strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	who := &clientcmdapi.AuthInfo{Token: s.config.BearerToken}
	if group, is := strings.CutPrefix(user, "group:"); is {
		who.Impersonate, who.ImpersonateGroups = "somebody", []string{group, "system:authenticated"}
	} else if user != "" {
		who.Impersonate = user
	}
	must.Succeed(s.t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "site",
		Clusters:       map[string]*clientcmdapi.Cluster{"site": {Server: s.config.Host, CertificateAuthority: s.config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"site": who},
		Contexts:       map[string]*clientcmdapi.Context{"site": {Cluster: "site", AuthInfo: "site"}},
	}, file))
	return file
}

// sh runs a script in the folder of a page as a user, and returns what it prints.
func (s *site) sh(t *testing.T, folder, user, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euxc", script)
	cmd.Dir, cmd.Env = filepath.Dir(s.path(folder, "x")), s.env(user)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), log.String())
	}
	return out.String()
}

// makeForge serves a repository with releases of a module over https.
func (s *site) makeForge() {
	s.t.Helper()
	s.write("variable \"cidr\" {\n  type    = string\n  default = \"10.0.0.0/16\"\n}\n", "git", "vpc.git", "main.tf")
	git := must.Get(exec.LookPath("git"))(s.t)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "release"}, {"tag", "v6.0.1"}} {
		cmd := exec.CommandContext(s.t.Context(), git, append([]string{"-c", "user.name=rig", "-c", "user.email=rig@example.com"}, args...)...)
		cmd.Dir, cmd.Env = s.path("git", "vpc.git"), append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	s.forge = httptest.NewTLSServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(s.dir, "git"), "GIT_HTTP_EXPORT_ALL=1"}})
	s.t.Cleanup(s.forge.Close)
	s.write(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.forge.Certificate().Raw})), "ca.pem")
}

// source returns the address of the module at the forge.
func (s *site) source() string { return "git::" + s.forge.URL + "/vpc.git/.git" }

// serve starts okara serve with a token for the operator, and writes the login with which
// programs use that token. The page about Flux adds a token to the same file. The keys of
// runs are added once the operator has created them.
func (s *site) serve() {
	s.t.Helper()
	address := must.Get(rig.FreeAddresses(1))(s.t)[0]
	s.okara = address
	okara := filepath.Join(rig.Root(), "bin", "okara")
	tokens := s.path("flux.md", "tokens")
	made := exec.CommandContext(s.t.Context(), okara, "admin", "token", "new", "operator", "admin:*:**", "write:state:**", "--token-file", tokens, "--write", s.path("token"))
	if out, err := made.CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	token := must.Get(os.ReadFile(s.path("token")))(s.t)
	login := must.Get(json.Marshal(map[string]any{"auths": map[string]any{s.okara: map[string]string{"username": "okara", "password": strings.TrimSpace(string(token))}}}))(s.t)
	s.write(string(login), "config.json")
	s.write(someKey(s.t), "jwks.json")
	s.write(fmt.Sprintf(`
issuer "okara-operator.prod" {
  audiences = ["okara"]
  jwks_file = %q
}
rule "states of runs" {
  issuer = "okara-operator.prod"
  allow  = ["write:state:prod.{namespace}/{workspace}", "read:mirror:**"]
}
rule "modules of runs" {
  issuer = "okara-operator.prod"
  allow  = ["read:module:{module...}"]
}
`, s.path("jwks.json")), "okara.hcl")
	s.start("serve.log", okara, "serve", "--listen", s.okara, "--storage", s.path("storage"), "--token-file", tokens, "--config", s.path("okara.hcl"))
	s.until("okara serve answers", func() bool {
		resp, err := http.Get("http://" + s.okara + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// someKey is a key that signs nothing.
func someKey(t *testing.T) string {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must.Get(key.PublicKey.Bytes())(t)
	text := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "none", "x": %q, "y": %q}]}`, text(point[1:33]), text(point[33:]))
}

// start starts a program, whose log a failed test shows.
func (s *site) start(log, path string, args ...string) *exec.Cmd {
	s.t.Helper()
	file := must.Get(os.OpenFile(s.path(log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	defer file.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = file, file, append(os.Environ(), "DOCKER_CONFIG="+s.dir)
	must.Succeed(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		if b, err := os.ReadFile(s.path(log)); s.t.Failed() && err == nil {
			s.t.Logf("%s: %s", log, b[max(0, len(b)-8<<10):])
		}
	})
	return cmd
}

// operate starts the operator like its pod, after any other.
func (s *site) operate(t *testing.T) {
	t.Helper()
	if s.operator != nil {
		_ = s.operator.Process.Kill()
		_ = s.operator.Wait()
	}
	var deployment struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []struct{ Args []string } }
			}
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(s.sh(t, "site", "", "kubectl get deployment okara-operator -n okara-system -o json")), &deployment))
	token := strings.TrimSpace(s.sh(t, "site", "", "kubectl create token okara-operator -n okara-system --duration 6h"))
	config := rest.CopyConfig(s.config)
	config.BearerToken = token
	must.Succeed(t, rig.WriteConfig(s.path("operator.kubeconfig"), config))
	args := deployment.Spec.Template.Spec.Containers[0].Args
	settings := s.path("etc", "config", "runs.hcl")
	for i, arg := range args {
		if strings.HasPrefix(arg, "--config=") {
			s.write(s.sh(t, "site", "", `kubectl get configmap okara-operator -n okara-system -o jsonpath='{.data.runs\.hcl}'`), "etc", "config", "runs.hcl")
			args[i] = "--config=" + settings
		}
		if strings.HasPrefix(arg, "--serve=") {
			args[i] = "--serve=http://" + s.okara
		}
	}
	args = append(args, "--kubeconfig", s.path("operator.kubeconfig"), "--namespace", "okara-system", "--temp-dir", os.TempDir(), "--ca-file", s.path("ca.pem"),
		"--plain-http", "--metrics-address", "0", "--health-address", "0", "--lease", "9s")
	s.operator = s.start("operator.log", filepath.Join(rig.Root(), "bin", "okara-operator"), args...)
}

// keys gives okara serve the keys of runs, as the kubelet does for its pod.
func (s *site) keys(t *testing.T) {
	t.Helper()
	var keys string
	s.until("the operator makes keys", func() bool {
		keys = s.sh(t, "site", "", `kubectl get configmap okara-run-issuer -n okara-system -o jsonpath='{.data.jwks\.json}' --ignore-not-found`)
		return keys != ""
	})
	s.write(keys, "jwks.json")
}

func (s *site) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			s.t.Fatalf("never: %s", what)
		}
		select {
		case <-s.t.Context().Done():
			s.t.Fatal(s.t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
