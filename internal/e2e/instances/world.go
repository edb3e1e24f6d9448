// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// world is everything that the demonstration runs on.
type world struct {
	root, dir string // of the repository; of this demonstration
	registry  string // HOST/PREFIX
	store     *exec.Cmd
	a, b      *replica
	issuer    *issuer
	env       []string
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) random(b []byte) { _, _ = rand.Read(b) } // never fails

// newWorld starts registry, issuer and replicas, and publishes the module and provider.
func newWorld(ctx context.Context) (w *world, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "okara-demo")
	if err != nil {
		return nil, err
	}
	w = &world{root: root, dir: dir, issuer: newIssuer()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(true))
		}
	}()
	key := make([]byte, 32)
	w.random(key)
	w.env = append(os.Environ(), "HOME="+w.path("home"), "XDG_DATA_HOME="+w.path("data"), "XDG_CONFIG_HOME="+w.path("config"), "CHECKPOINT_DISABLE=1",
		"OKARA_STATE_KEYS="+w.path("state.key"), "SSL_CERT_FILE="+w.path("ca.pem"), "TMPDIR="+w.path("tmp"))
	for _, d := range []string{"home", "templates", "a", "b", "tmp"} {
		if err := os.MkdirAll(w.path(d), 0o700); err != nil {
			return w, err
		}
	}
	for name, content := range map[string]string{
		"state.key": hex.EncodeToString(key), "archive.key": hex.EncodeToString(key), "templates/demo.hcl": templates,
		"registry.yml": fmt.Sprintf(registryConfig, w.path("registry")),
	} {
		if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
			return w, err
		}
	}
	step("A registry, an issuer of tokens, a module and a provider")
	if err := w.startRegistry(ctx); err != nil {
		return w, err
	}
	if err := w.publish(ctx); err != nil {
		return w, err
	}
	step("Two replicas of okara, of which one leads")
	if w.a, err = w.newReplica(ctx, "a"); err != nil {
		return w, err
	}
	w.b, err = w.newReplica(ctx, "b")
	return w, err
}

const registryConfig = `version: 0.1
log: {level: error}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: "127.0.0.1:0", secret: demo, draintimeout: 5s}
`

var listening = regexp.MustCompile(`(?:listening on |https?://)(?:https?://)?([0-9a-z.\[\]:]+:[0-9]+)`)

func (w *world) startRegistry(ctx context.Context) error {
	w.store = exec.Command(filepath.Join(w.root, ".cache/registry/3.1.2/registry"), "serve", w.path("registry.yml"))
	w.store.Env = append(w.env, "OTEL_TRACES_EXPORTER=none", "REGISTRY_LOG_LEVEL=info")
	at, err := startAndFind(ctx, w.store, w.path("registry.log"))
	w.registry = at + "/demo"
	return err
}

// startAndFind starts a server whose output goes to a file, and returns the address on
// which it says that it listens.
func startAndFind(ctx context.Context, cmd *exec.Cmd, file string) (string, error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer out.Close()
	from, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	cmd.Stdout = out
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var at string
	err = until(ctx, time.Minute, func() (bool, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if m := listening.FindSubmatch(b[from.Size():]); m != nil {
			at = string(m[1])
		}
		return at != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("%s does not listen: %w", filepath.Base(cmd.Path), err)
	}
	return at, nil
}

// okara runs a command of okara and returns what it prints.
func (w *world) okara(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "bin/okara"), args...)
	cmd.Env = append(w.env, "OKARA_REGISTRY="+w.registry)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("okara %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return b, nil
}

// close ends what was started, and shows the logs after a failure.
func (w *world) close(failed bool) error {
	for _, p := range []*replica{w.a, w.b} {
		if p == nil || p.cmd == nil || p.cmd.Process == nil {
			continue
		}
		if failed {
			b, _ := os.ReadFile(w.path(p.name, "log")) // shown as far as it is readable
			fmt.Fprintf(os.Stderr, "\nthe log of replica %s:\n%s", p.name, b[max(0, len(b)-8192):])
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	}
	if w.store != nil && w.store.Process != nil {
		_ = w.store.Process.Kill()
		_ = w.store.Wait()
	}
	w.issuer.Close()
	return os.RemoveAll(w.dir)
}
