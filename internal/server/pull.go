// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/registry"
)

// Pull is a pull_through block: which providers okara serve fetches from
// their origin when they are asked for.
type Pull struct {
	Providers     string    `hcl:"providers,label"`            // HOSTNAME/NAMESPACE/TYPE, with *
	Versions      string    `hcl:"versions,optional"`          // which ones
	Platforms     []string  `hcl:"platforms,optional"`         // which ones
	From          string    `hcl:"from,optional"`              // from where, instead of their own registry
	Private       []string  `hcl:"private,optional"`           // hosts that may be at a private address
	AllowUnsigned bool      `hcl:"allow_unsigned,optional"`    // also what nobody signed
	AllowExpired  bool      `hcl:"allow_expired_key,optional"` // also what an expired key signed
	Range         hcl.Range `hcl:",def_range"`
}

// pullRules returns the rules of the pull_through blocks.
func (o *Origins) pullRules(env Env, m *Metrics) ([]registry.PullRule, error) {
	var rules []registry.PullRule
	for _, p := range o.Pulls {
		r, err := p.rule(env, m)
		if err != nil {
			return nil, syntax.WrongAt(p.Range, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (p Pull) rule(env Env, m *Metrics) (registry.PullRule, error) {
	r := registry.PullRule{
		Providers: p.Providers,
		Mirror:    depot.MirrorOptions{AllowUnsigned: p.AllowUnsigned, AllowExpired: p.AllowExpired},
	}
	if err := checkProviderGlob(p.Providers); err != nil {
		return r, err
	}
	var err error
	if r.Versions, err = addr.ParseConstraint(p.Versions); err != nil {
		return r, err
	}
	for _, text := range p.Platforms {
		t, err := addr.ParsePlatform(text)
		if err != nil {
			return r, err
		}
		r.Mirror.Platforms = append(r.Mirror.Platforms, t)
	}
	client, err := p.client(env, m)
	if err != nil {
		return r, err
	}
	r.Origin, err = pullOrigin(p.From, client)
	return r, err
}

// checkProviderGlob wants three segments of an address, in each of which * may
// stand for anything.
func checkProviderGlob(glob string) error {
	parts := strings.Split(glob, "/")
	if len(parts) != 3 || slices.Contains(parts, "") || strings.Contains(glob, "**") {
		return fmt.Errorf("%q is not HOSTNAME/NAMESPACE/TYPE, such as registry.opentofu.org/hashicorp/*", glob)
	}
	if _, err := addr.ParseProvider(strings.ReplaceAll(glob, "*", "x")); err != nil {
		return err
	}
	if glob != strings.ToLower(glob) {
		return fmt.Errorf("%q has capital letters, and addresses have none", glob)
	}
	return nil
}

// pullOrigin returns the source that from names: the registry of the address
// itself, another registry, a network mirror, or the address of the provider
// protocol.
func pullOrigin(from string, client *upstream.Client) (depot.Source, error) {
	switch {
	case from == "":
		return &upstream.Registry{Client: client}, nil
	case strings.HasPrefix(from, "https://"):
		u, err := url.Parse(from)
		if err != nil || u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("from: %q is not the address of a network mirror", from)
		}
		return supply.HTTPSource(client, u), nil
	case strings.ContainsAny(from, `/\ `):
		return nil, fmt.Errorf("from: %q is neither the HOST of a registry nor the https:// address of a network mirror", from)
	}
	return &upstream.Registry{Client: client, Host: from}, nil
}

// client reads origins with the tokens that tofu and terraform would
// send there, and reaches no private address but the listed ones.
func (p Pull) client(env Env, m *Metrics) (*upstream.Client, error) {
	for _, host := range p.Private {
		if host == "" || strings.ContainsAny(host, "/*") {
			return nil, fmt.Errorf("private: %q is not HOST or HOST:PORT", host)
		}
	}
	guard := upstream.NewGuard(slices.Concat(p.Private, upstream.Proxies(env.Getenv)))
	o := env.Transport
	o.Dial = guard.Dial
	t, err := httpserve.Transport(o)
	if err != nil {
		return nil, err
	}
	return &upstream.Client{HTTP: guard.Client(m.originTransport(p.Providers, t)), Token: env.HostToken, UserAgent: env.OCI.UserAgent}, nil
}
