// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/seed-141914ff/okara/operator/internal/plangate"
)

// gateSite configures the plan gate, and how tofu-controller reaches it.
type gateSite struct {
	address      string
	certificates string
	url          string
}

func (s *gateSite) addTo(f *pflag.FlagSet) {
	f.StringVar(&s.address, "plan-gate-address", "", "`ADDRESS` to which tofu-controller sends plans that wait for approval; empty: plans cannot be approved")
	f.StringVar(&s.certificates, "plan-gate-certificates", "", "`FOLDER` with tls.crt and tls.key of the plan gate, and ca.crt, the CA of tofu-controller's certificate")
	f.StringVar(&s.url, "plan-gate-url", "", "`URL` of the plan gate for tofu-controller (default https://okara-operator.NAMESPACE.svc"+plangate.Path+")")
}

func (s *gateSite) check() error {
	if (s.address == "") != (s.certificates == "") {
		return usagef("--plan-gate-address and --plan-gate-certificates must be set together")
	}
	if _, port, err := net.SplitHostPort(s.address); s.address != "" && (err != nil || !isPort(port)) {
		return usagef("--plan-gate-address %q is not [HOST]:PORT: use :9443, for example", s.address)
	}
	if s.url == "" {
		return nil
	}
	if s.address == "" || !isGateURL(s.url) {
		return usagef("--plan-gate-url %q is not https://HOST[:PORT]%s", s.url, plangate.Path)
	}
	return nil
}

func isGateURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	return u.User == nil && u.Path == plangate.Path
}

// webhook returns the gate URL for runs, or "" if there is no gate.
func (s *gateSite) webhook(namespace string) string {
	if s.address == "" || s.url != "" {
		return s.url
	}
	return fmt.Sprintf("https://okara-operator.%s.svc%s", namespace, plangate.Path)
}

func (s *gateSite) startGate(mgr ctrl.Manager, namespace string, log *slog.Logger) error {
	if s.address == "" {
		return nil
	}
	c, err := directClient(mgr)
	if err != nil {
		return err
	}
	gate, err := plangate.Listen(s.address, plangate.Certificates(s.certificates), c, log)
	if err != nil {
		return err
	}
	log.Info("plan gate listening", "address", gate.Addr(), "url", s.webhook(namespace))
	return mgr.Add(gate)
}
