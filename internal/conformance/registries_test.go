// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// each runs f on every registry, each with an empty prefix.
func each(t *testing.T, f func(t *testing.T, c *oci.Client)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) string{
		"olareg":                startOlareg,
		"ggcr":                  startGGCR,
		"distribution":          func(t *testing.T) string { return startDistribution(t, true) },
		"distribution-nodelete": func(t *testing.T) string { return startDistribution(t, false) },
	} {
		t.Run(name, func(t *testing.T) { f(t, newClient(t, start(t), oci.Options{})) })
	}
	for prefix := range strings.FieldsSeq(os.Getenv("OKARA_TEST_REGISTRIES")) {
		t.Run(prefix, func(t *testing.T) { f(t, newClient(t, prefix, hosted(t))) })
	}
}

func newClient(t *testing.T, prefix string, o oci.Options) *oci.Client {
	t.Helper()
	return must.Get(oci.New(prefix, o))(t)
}

// hosted returns options for real registries, as the okara command uses them.
func hosted(t *testing.T) oci.Options {
	t.Helper()
	transport := must.Get(httpserve.Transport(httpserve.TransportOptions{}))(t)
	return oci.Options{Transport: transport, Credential: credentials.New(credentials.Options{Getenv: os.Getenv}).Credential}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func startOlareg(t *testing.T) string {
	yes := true
	s := olareg.New(config.Config{
		Storage: config.ConfigStorage{StoreType: config.StoreMem},
		API:     config.ConfigAPI{DeleteEnabled: &yes, PushEnabled: &yes},
	})
	t.Cleanup(func() { _ = s.Close() })
	return serve(t, s)
}

func startGGCR(t *testing.T) string {
	return serve(t, ggcr.New(ggcr.WithReferrersSupport(true), ggcr.Logger(log.New(io.Discard, "", 0))))
}

const distributionConfig = `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: %t}
http: {addr: "127.0.0.1:0", secret: conformance}
`

// listening finds the port in distribution's log.
var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[0-9]+)`)

// startDistribution runs the program that `make tools` builds.
func startDistribution(t *testing.T, deletes bool) string {
	t.Helper()
	host, _ := serveDistribution(t, pinned(t, "3.1.2"), configure(t, deletes))
	return host
}

// pinned is the program of a version that `make tools` builds.
func pinned(t *testing.T, version string) string {
	t.Helper()
	return must.Get(filepath.Abs("../../.cache/registry/" + version + "/registry"))(t)
}

// configure writes the configuration of a registry with a folder of its own.
func configure(t *testing.T, deletes bool) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "config.yml")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, distributionConfig, filepath.Join(dir, "data"), deletes), 0o600))
	return file
}

// serveDistribution starts a program; stop, which may be called again, ends it.
func serveDistribution(t *testing.T, program, config string) (host string, stop func()) {
	t.Helper()
	cmd := exec.Command(program, "serve", config)
	output := must.Get(cmd.StderrPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make tools builds it", err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: the error says so
	})
	t.Cleanup(stop)
	addr := make(chan string, 1)
	go func() {
		defer close(addr)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				addr <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, output) // so that the process never waits for a reader
	}()
	host, ok := <-addr
	if !ok {
		t.Fatal("distribution ended before it listened")
	}
	return host, stop
}
