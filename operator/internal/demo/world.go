// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// Names in the cluster and in the registry.
const (
	system = "okara-system"
	tenant = "team-a"
	module = tenant + "/vpc/aws"
	newest = "1.11.0"
)

// world is the environment of the demonstration.
type world struct {
	root, dir  string
	remove     func() error
	kube       rig.Cluster
	admin      *rest.Config
	kubeconfig string // of the operator
	tenant     client.Client
	server     *httptest.Server // git
	origin     string           // HOST:PORT of the git server
	git        string           // source of the module
	front      string           // HOST:PORT of the registry and its front-end
	operator   *process
	lease      string   // duration of the operator's lease
	metrics    string   // HOST:PORT of the operator's metrics
	runs       []string // flags of an operator that runs modules
	processes  []*process
	before     map[string]string
}

func newWorld() (*world, error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	w := &world{root: rig.Root(), dir: dir, remove: remove, lease: "5s", metrics: "0"}
	for _, d := range []string{"home", "app", "tmp"} {
		if err := os.Mkdir(w.path(d), 0o700); err != nil {
			return nil, errors.Join(err, remove())
		}
	}
	return w, nil
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// env returns the environment of every program, without the user's own configuration.
func (w *world) env() []string {
	return append(os.Environ(), "HOME="+w.path("home"), "XDG_DATA_HOME="+w.path("home"), "XDG_CONFIG_HOME="+w.path("home"), "DOCKER_CONFIG="+w.path("home"),
		"TMPDIR="+w.path("tmp"), "TF_CLI_CONFIG_FILE="+w.path("cli.tfrc"), "CHECKPOINT_DISABLE=1", "OKARA_REGISTRY=", "KUBECONFIG=",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
}

// program returns the path at which make has put a program.
func (w *world) program(name string) string {
	if name == "tofu" {
		return filepath.Join(w.root, ".cache/tofu/1.12.6/tofu")
	}
	return filepath.Join(w.root, "bin", name)
}

// run runs a program to its end and prints its command line and output.
func (w *world) run(ctx context.Context, name string, args ...string) error {
	fmt.Println("$", name, strings.ReplaceAll(strings.Join(args, " "), w.dir+"/", ""))
	cmd := exec.CommandContext(ctx, w.program(name), args...)
	cmd.Env = w.env()
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// process is a program that runs until it is stopped.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}

// start starts a program that logs to a file.
func (w *world) start(name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(w.path(fmt.Sprintf("%s-%d.log", name, len(w.processes))), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: fmt.Sprintf("%s (%d)", name, len(w.processes)), cmd: exec.Command(w.program(program), args...), log: log.Name()}
	p.cmd.Env = w.env()
	p.cmd.Stdout = log
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.processes = append(w.processes, p)
	return p, nil
}

// listening finds the address on which okara serve says that it listens.
var listening = regexp.MustCompile(`http://(127\.0\.0\.1:[0-9]+)`)

// serve starts a registry with a front-end, and returns HOST:PORT.
func (w *world) serve(name string, flags ...string) (string, error) {
	return w.serveAt("127.0.0.1:0", name, flags...)
}

// serveAt is like serve, with a given address.
func (w *world) serveAt(address, name string, flags ...string) (string, error) {
	p, err := w.start(name, "okara", append([]string{"serve", "--listen", address, "--storage", w.path(name)}, flags...)...)
	if err != nil {
		return "", err
	}
	var at string
	err = until(context.Background(), time.Minute, func() (bool, error) {
		b, err := os.ReadFile(p.log)
		if m := listening.FindSubmatch(b); m != nil {
			at = string(m[1])
		}
		return at != "", err
	})
	return at, err
}

// outside starts the servers outside the cluster.
func (w *world) outside(context.Context) (err error) {
	if err := w.gitServer(); err != nil {
		return err
	}
	if w.front, err = w.serve("front-end"); err != nil {
		return err
	}
	fmt.Printf("%s; okara serve on %s\n", w.git, w.front)
	return nil
}

// gitServer creates a repository and serves it over HTTPS with git's own program.
func (w *world) gitServer() error {
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	repo := w.path("git", "vpc.git")
	command := func(args ...string) error {
		cmd := exec.Command(git, append([]string{"-C", repo, "-c", "user.name=demo", "-c", "user.email=demo@example.com"}, args...)...)
		cmd.Env = w.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	if err := errors.Join(os.MkdirAll(repo, 0o700), command("init", "-q")); err != nil {
		return err
	}
	for n := range releases {
		text := fmt.Sprintf("variable \"cidr\" {\n  type    = string\n  default = \"10.%d.0.0/16\"\n}\n", n)
		if err := errors.Join(os.WriteFile(filepath.Join(repo, "main.tf"), []byte(text), 0o600),
			command("add", "."), command("commit", "-q", "-m", "release"), command("tag", fmt.Sprintf("v1.%d.0", n))); err != nil {
			return err
		}
	}
	w.server = httptest.NewTLSServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + w.path("git"), "GIT_HTTP_EXPORT_ALL=1"}})
	w.origin = w.server.Listener.Addr().String()
	w.git = "git::" + w.server.URL + "/vpc.git/.git"
	return writeCertificate(w.path("ca.pem"), w.server.Certificate())
}

func writeCertificate(file string, c *x509.Certificate) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o600)
}

// versions returns the tags of the module in a registry with their digests.
func (w *world) versions(ctx context.Context, registry string) (map[string]string, error) {
	base := "http://" + registry + "/v2/modules/" + module
	var list struct{ Tags []string }
	if _, err := get(ctx, base+"/tags/list", &list); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, tag := range list.Tags {
		if tag[0] < '0' || tag[0] > '9' {
			continue
		}
		header, err := get(ctx, base+"/manifests/"+tag, nil)
		if err != nil {
			return nil, err
		}
		if digest := header.Get("Docker-Content-Digest"); digest != "" { // empty while the manifest is being uploaded
			all[tag] = digest
		}
	}
	return all, nil
}

// get requests a JSON document. If it does not exist, into is left unchanged.
func get(ctx context.Context, url string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return resp.Header, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	case into == nil:
		return resp.Header, nil
	}
	return resp.Header, json.NewDecoder(resp.Body).Decode(into)
}

// close stops the processes, and prints their logs on failure.
func (w *world) close(failed bool) error {
	for _, p := range w.processes {
		if failed {
			b, _ := os.ReadFile(p.log) // printed as far as it can be read
			fmt.Fprintf(os.Stderr, "\nthe log of %s:\n%s", p.name, b[max(0, len(b)-4096):])
		}
		p.kill()
	}
	w.kube.Stop()
	if w.server != nil {
		w.server.Close()
	}
	return w.remove()
}
