// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/must"
)

// Issuer is the issuer of service account tokens.
const Issuer = "https://rig.invalid"

// startTimeout bounds how long a program may take to answer; machines may be busy.
const startTimeout = 4 * time.Minute

// Cluster is etcd, an API server, and what [Cluster.With] starts.
type Cluster struct {
	server, manager, source, helm, tofu started

	dir     string
	remove  func() error // removes the folder
	admin   *rest.Config
	running []*Process // in start order
}

// started is a program that is started at most once.
type started struct {
	once sync.Once
	err  error
}

// startOnce starts a program for the first test that needs it.
func (s *started) startOnce(t testing.TB, start func() error) {
	t.Helper()
	s.once.Do(func() { s.err = start() })
	checkErr(t, s.err)
}

// builtVar is set if etcd, the API server and the CRDs have been built, as by make test.
const builtVar = "OKARA_TEST_BUILT"

// checkErr fails a test, or skips it without a program that may be missing.
func checkErr(t testing.TB, err error) {
	t.Helper()
	missing, ok := errors.AsType[*missingError](err)
	switch {
	// Only make interop-kube builds these.
	case ok && (os.Getenv(builtVar) == "" || slices.Contains([]string{Manager, Source, Helm, Tofu, "kubectl", "helm"}, missing.name)):
		t.Skip(missing)
	case err != nil:
		t.Fatal(err)
	}
}

// Main runs the tests of a package and stops the cluster that they started.
func Main(m *testing.M, c *Cluster) int {
	defer c.stop()
	return m.Run()
}

// Admin returns a configuration with every right. The first call starts the cluster.
func (c *Cluster) Admin(t testing.TB) *rest.Config {
	t.Helper()
	c.server.startOnce(t, c.start)
	return rest.CopyConfig(c.admin)
}

// Namespace creates a namespace for one test.
func (c *Cluster) Namespace(t testing.TB, annotations map[string]string) *corev1.Namespace {
	t.Helper()
	set := must.Get(kubernetes.NewForConfig(c.Admin(t)))(t)
	return must.Get(set.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Annotations: annotations},
	}, metav1.CreateOptions{}))(t)
}

func (c *Cluster) start() error {
	etcd, err := builtProgram("etcd")
	if err != nil {
		return err
	}
	server, err := builtProgram("kube-apiserver")
	if err != nil {
		return err
	}
	if c.dir, c.remove, err = files.TempDir(""); err != nil {
		return err
	}
	etcdURL, err := c.startEtcd(etcd)
	if err != nil {
		return err
	}
	if err := c.startAPIServer(server, etcdURL); err != nil {
		return err
	}
	return WriteConfig(c.kubeconfig(), c.admin)
}

func (c *Cluster) startEtcd(path string) (string, error) {
	port, err := FreeAddresses(2)
	if err != nil {
		return "", err
	}
	client := "http://" + port[0]
	peer := "http://" + port[1]
	return client, c.runUntilReady(path, nil, func(p *Process) error { return p.AwaitOK(http.DefaultClient, client+"/health") },
		"--data-dir", c.etcdFolder(), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
}

func (c *Cluster) etcdFolder() string { return filepath.Join(c.dir, "etcd") }

// runUntilReady starts a program of the cluster, and waits until it is ready.
func (c *Cluster) runUntilReady(path string, env []string, ready func(*Process) error, args ...string) error {
	p, err := Launch(c.dir, path, env, args...)
	if err != nil {
		return err
	}
	p.ready = ready
	c.running = append(c.running, p)
	return ready(p)
}

func (c *Cluster) startAPIServer(path, etcdURL string) error {
	port, err := FreeAddresses(1)
	if err != nil {
		return err
	}
	key, err := c.writePrivate("sa.key", newKey)
	if err != nil {
		return err
	}
	token := rand.Text()
	tokens, err := c.writePrivate("tokens.csv", func() ([]byte, error) { return []byte(token + ",admin,admin,system:masters\n"), nil })
	if err != nil {
		return err
	}
	_, number, err := net.SplitHostPort(port[0])
	if err != nil {
		return err
	}
	audit, err := c.writePrivate("audit-policy.yaml", func() ([]byte, error) { return []byte(auditPolicy), nil })
	if err != nil {
		return err
	}
	certs := filepath.Join(c.dir, "certs")
	c.admin = &rest.Config{
		Host: "https://" + port[0], BearerToken: token, QPS: -1, // no client-side limit: tests wait for events
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(certs, "apiserver.crt")},
	}
	return c.runUntilReady(path, nil, func(p *Process) error { return p.answersTLS(c.admin, "/readyz") },
		"--etcd-servers", etcdURL, "--cert-dir", certs, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", number,
		"--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
		"--service-account-issuer", Issuer, "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--anonymous-auth=false",
		"--audit-policy-file", audit, "--audit-log-path", c.auditLog())
}

// auditPolicy makes the server log writes of okara's objects, except those of statuses.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, resources: [{group: okara.dev, resources: ["*/status"]}, {group: apps.okara.dev, resources: ["*/status"]}]}
  - {level: Metadata, verbs: [create, update, patch], resources: [{group: okara.dev}, {group: apps.okara.dev}]}
  - {level: None}
`

func (c *Cluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// Audit returns the API server's audit log as JSON lines. The last one may be cut off.
func (c *Cluster) Audit(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile(c.auditLog()))(t)
	return string(b)
}

// writePrivate creates a file that only this user can read.
func (c *Cluster) writePrivate(name string, text func() ([]byte, error)) (string, error) {
	b, err := text()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, name)
	return path, os.WriteFile(path, b, 0o600)
}

// newKey generates the key that signs service account tokens.
func newKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

func (c *Cluster) stop() {
	for _, p := range slices.Backward(c.running) {
		p.Kill()
	}
	c.running = nil
	if c.remove != nil {
		_ = c.remove() // leftovers are in the folder of temporary files
	}
}

// FreeAddresses returns unused loopback addresses, each HOST:PORT.
func FreeAddresses(n int) ([]string, error) {
	var list []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		list = append(list, net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)))
	}
	return list, nil
}

// missingError names what has not been built: a program, or the CRDs of another project.
type missingError struct{ name string }

func (e *missingError) Error() string {
	return fmt.Sprintf("%s has not been built: make -C operator %s", e.name, e.name)
}

// Start starts the cluster for a program that is no test, and returns every right. Stop stops it.
func (c *Cluster) Start() (*rest.Config, error) {
	if err := c.start(); err != nil {
		c.stop()
		return nil, errors.Join(errors.New("no cluster"), err)
	}
	return rest.CopyConfig(c.admin), nil
}

// StartManager starts kube-controller-manager, and returns how to restart it.
func (c *Cluster) StartManager() (again func() error, err error) {
	if err := c.startManager(); err != nil {
		return nil, err
	}
	p := c.running[len(c.running)-1]
	return func() error {
		p.Kill()
		return p.start()
	}, nil
}

// Stop stops what Start has started.
func (c *Cluster) Stop() { c.stop() }
