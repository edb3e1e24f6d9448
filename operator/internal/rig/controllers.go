// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// tofuVar names the tofu that tofu-controller runs.
	tofuVar = "OKARA_TEST_TOFU"
	// fluxNamespace has tofu-controller's certificates.
	fluxNamespace = "flux-system"
	// runnerAddress is the fixed listen address of the runner in tofu-controller.
	runnerAddress = "localhost:30000"
)

// Controllers of a cluster.
const (
	Manager = "kube-controller-manager" // collects garbage and empties namespaces
	Source  = "source-controller"
	Helm    = "helm-controller"
	Tofu    = "tofu-controller"
)

// With starts controllers, Flux's CRDs first. [Helm] and [Tofu] need [Source] before them. Only one
// test binary of a machine can use Tofu at a time.
func (c *Cluster) With(t testing.TB, controllers ...string) *rest.Config {
	t.Helper()
	tofu := os.Getenv(tofuVar)
	if tofu == "" {
		t.Skipf("%s names no tofu for tofu-controller: make interop-kube", tofuVar)
	}
	admin := c.Admin(t)
	for _, name := range controllers {
		switch name {
		case Manager:
			c.manager.startOnce(t, c.startManager)
		case Source:
			c.source.startOnce(t, c.startSource)
		case Helm:
			c.helm.startOnce(t, func() error { return c.startFlux(Helm, nil) })
		case Tofu:
			c.tofu.startOnce(t, func() error { return c.startTofu(tofu) })
		default:
			t.Fatalf("%s is no controller", name)
		}
	}
	return admin
}

// startManager starts the controllers that are useful without pods.
func (c *Cluster) startManager() error {
	path, err := builtProgram(Manager)
	if err != nil {
		return err
	}
	port, err := FreeAddresses(1)
	if err != nil {
		return err
	}
	_, number, err := net.SplitHostPort(port[0])
	if err != nil {
		return err
	}
	certs := filepath.Join(c.dir, "manager-certs")
	at := &rest.Config{
		Host:            "https://" + port[0],
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(certs, "kube-controller-manager.crt")},
	}
	return c.runUntilReady(path, nil, func(p *Process) error { return p.answersTLS(at, "/healthz") }, "--kubeconfig", c.kubeconfig(), "--leader-elect=false",
		"--controllers", "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller,serviceaccount-controller",
		"--bind-address", "127.0.0.1", "--secure-port", number, "--cert-dir", certs)
}

func (c *Cluster) startSource() error {
	port, err := FreeAddresses(1)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "artifacts")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return c.startFlux(Source, nil, "--storage-path", dir, "--storage-addr", port[0], "--storage-adv-addr", port[0])
}

// startTofu starts tofu-controller and, in its environment, tofu: a warning would break a run.
func (c *Cluster) startTofu(tofu string) error {
	if err := c.makeRunner(); err != nil {
		return err
	}
	env := []string{"PATH=" + filepath.Dir(tofu), "INSECURE_LOCAL_RUNNER=1", "DISABLE_TF_K8S_BACKEND=1", "DISABLE_WEBHOOK_TLS_VERIFY=1"}
	return c.startFlux(Tofu, env, "--concurrent", "1")
}

// startFlux starts a controller of Flux, after creating the CRDs of its module.
func (c *Cluster) startFlux(name string, env []string, args ...string) error {
	path, err := builtProgram(name)
	if err != nil {
		return err
	}
	if err := installOf(context.Background(), c.admin, name); err != nil {
		return err
	}
	port, err := FreeAddresses(1)
	if err != nil {
		return err
	}
	env = append(env, "KUBECONFIG="+c.kubeconfig(), "HOME="+c.dir, "TMPDIR="+c.dir, "RUNTIME_NAMESPACE="+fluxNamespace)
	return c.runUntilReady(path, env, func(p *Process) error { return p.AwaitOK(http.DefaultClient, "http://"+port[0]+"/readyz") },
		append(args, "--health-addr", port[0], "--metrics-addr", "0")...)
}

// makeRunner prepares the part of tofu-controller that runs tofu.
func (c *Cluster) makeRunner() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", runnerAddress)
	if err != nil {
		return fmt.Errorf("tofu-controller listens on no other port: %w", err)
	}
	set, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	_, err = set.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fluxNamespace}}, metav1.CreateOptions{})
	return errors.Join(err, l.Close())
}

func (c *Cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// WriteConfig writes a configuration as a kubeconfig for other programs.
func WriteConfig(path string, config *rest.Config) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "rig",
		Clusters:       map[string]*clientcmdapi.Cluster{"rig": {Server: config.Host, CertificateAuthority: config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"rig": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"rig": {Cluster: "rig", AuthInfo: "rig"}},
	}, path)
}
