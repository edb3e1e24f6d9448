// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/registry"
)

// fromEnvironment sets the flags that the command line leaves open by variables
// of the same name.
func (a *app) fromEnvironment(prefix string, flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := a.getenv(name)
		if value == "" || f.Changed {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, usageError("%s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

// serveMetrics serves /metrics on a listener of its own, if there is to be one,
// until stop is called: how a shutdown goes can be seen to its end.
func (a *app) serveMetrics(ctx context.Context, addr string, m *registry.Metrics) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	srv, err := httpserve.Listen(httpserve.Options{Addr: addr, Handler: mux, Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	a.note("metrics: %s/metrics", srv.URL())
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var served error
	running.Go(func() { served = srv.Serve(ctx) })
	return func() error { end(); running.Wait(); return served }, nil
}

// tls returns what --tls-self-signed makes, with the file of its CA.
func (f serveFlags) tls() (ca string, cfg *tls.Config, err error) {
	switch {
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return "", nil, usageError("--tls-cert and --tls-key belong together")
	case f.selfSigned && f.tlsCert != "":
		return "", nil, usageError("--tls-self-signed makes its own certificate; leave out --tls-cert")
	case !f.selfSigned:
		return "", nil, nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(f.listen); err == nil && host != "" && !loopback(host) {
		hosts = append(hosts, host)
	}
	if f.hostname != "" {
		hosts = append(hosts, f.hostname)
	}
	return httpserve.SelfSigned(filepath.Join(f.storage, "tls"), hosts)
}

// announce prints where the server is and what to type next.
func (a *app) announce(url, where, ca string) error {
	result := struct {
		URL     string `json:"url"`
		Storage string `json:"storage"`
		CA      string `json:"ca,omitempty"`
	}{url, where, ca}
	a.note("storage: %s", where)
	if ca != "" {
		a.note("to trust this server: export SSL_CERT_FILE=%s", ca)
	}
	a.note("next: okara cli-config %s --write okara.tfrc && export TF_CLI_CONFIG_FILE=$PWD/okara.tfrc", url)
	return a.printResult(result, "listening on "+url)
}
