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

// Pull is a pull_through block: which providers are fetched from their origin on request.
type Pull struct {
	Providers     string    `hcl:"providers,label"`            // HOSTNAME/NAMESPACE/TYPE, with *
	Versions      string    `hcl:"versions,optional"`          // constraint; "": all
	Platforms     []string  `hcl:"platforms,optional"`         // OS_ARCH; empty: all
	From          string    `hcl:"from,optional"`              // another registry or a network mirror; "": the provider's own registry
	Private       []string  `hcl:"private,optional"`           // hosts that may have a private address
	AllowUnsigned bool      `hcl:"allow_unsigned,optional"`    // also accept unsigned providers
	AllowExpired  bool      `hcl:"allow_expired_key,optional"` // also accept signatures of an expired key
	Range         hcl.Range `hcl:",def_range"`
}

// pullRules returns the rules of the pull_through blocks.
func (o *Origins) pullRules(env Env, m *Metrics) ([]registry.PullRule, error) {
	var rules []registry.PullRule
	for _, p := range o.Pulls {
		r, err := p.pullRule(env, m)
		if err != nil {
			return nil, syntax.WrongAt(p.Range, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (p Pull) pullRule(env Env, m *Metrics) (registry.PullRule, error) {
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
	client, err := p.newUpstream(env, m)
	if err != nil {
		return r, err
	}
	r.Origin, err = pullOrigin(p.From, client)
	return r, err
}

// checkProviderGlob requires three segments of an address, in which * stands for any text.
func checkProviderGlob(glob string) error {
	parts := strings.Split(glob, "/")
	if len(parts) != 3 || slices.Contains(parts, "") || strings.Contains(glob, "**") {
		return fmt.Errorf("%q is not HOSTNAME/NAMESPACE/TYPE, such as registry.opentofu.org/hashicorp/*", glob)
	}
	if _, err := addr.ParseProvider(strings.ReplaceAll(glob, "*", "x")); err != nil {
		return err
	}
	if glob != strings.ToLower(glob) {
		return fmt.Errorf("%q has capital letters, addresses must be lower case", glob)
	}
	return nil
}

// pullOrigin returns the source that from names: "" is the registry of the provider's address, else
// a network mirror, or another registry.
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
		return nil, fmt.Errorf("from: %q must be the HOST of a registry or the https:// address of a network mirror", from)
	}
	return &upstream.Registry{Client: client, Host: from}, nil
}

// newUpstream returns a client for origins. It sends the tokens that tofu and terraform would
// send there, and connects to no private address except the listed ones.
func (p Pull) newUpstream(env Env, m *Metrics) (*upstream.Client, error) {
	for _, host := range p.Private {
		if host == "" || strings.ContainsAny(host, "/*") {
			return nil, fmt.Errorf("private: %q must be HOST or HOST:PORT", host)
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

// GitHub is an organization, or user, of GitHub whose webhooks publish modules.
type GitHub struct {
	Owner       string    `hcl:"owner,label"`
	SecretFiles []string  `hcl:"secret_files,optional" path:"file"`     // secrets of the webhook
	SecretEnv   string    `hcl:"secret_env,optional"`                   // variable with another secret
	Namespace   string    `hcl:"namespace,optional"`                    // of its modules; "": the owner
	TokenEnv    string    `hcl:"token_env,optional"`                    // variable with a token to read repositories
	TokenFile   string    `hcl:"token_file,optional" path:"file"`       // file with such a token
	APIURL      string    `hcl:"api_url,optional"`                      // of GitHub Enterprise
	AppID       int64     `hcl:"app_id,optional"`                       // ID of a GitHub App, instead of a token
	Install     int64     `hcl:"installation_id,optional"`              // of the App for the owner
	KeyFile     string    `hcl:"private_key_file,optional" path:"file"` // of the App
	Range       hcl.Range `hcl:",def_range"`
}

// Hook is a module that a GitHub repository holds.
type Hook struct {
	Repository string    `hcl:"repository,label"` // OWNER/NAME
	Module     string    `hcl:"module"`           // address of the module
	Subdir     string    `hcl:"subdir,optional"`  // folder in the repository
	Range      hcl.Range `hcl:",def_range"`
}

// readGitHub reads github and hook blocks and their secrets. It sends no request: GitHub may be
// down.
func (o *Origins) readGitHub(env Env) ([]registry.GitHub, error) {
	hooks := map[string][]Hook{}
	for _, h := range o.Hooks {
		owner, _, ok := strings.Cut(h.Repository, "/")
		if !ok {
			return nil, syntax.WrongAt(h.Range, fmt.Errorf("hook %q: must be OWNER/REPOSITORY", h.Repository))
		}
		hooks[strings.ToLower(owner)] = append(hooks[strings.ToLower(owner)], h)
	}
	var out []registry.GitHub
	for _, c := range o.GitHub {
		if slices.ContainsFunc(out, func(g registry.GitHub) bool { return strings.EqualFold(g.Owner, c.Owner) }) {
			return nil, syntax.WrongAt(c.Range, fmt.Errorf("github %q appears twice", c.Owner))
		}
		g, err := c.owner(env)
		if err != nil {
			return nil, syntax.WrongAt(c.Range, fmt.Errorf("github %q: %w", c.Owner, err))
		}
		for _, h := range hooks[strings.ToLower(c.Owner)] {
			_, name, _ := strings.Cut(h.Repository, "/")
			g.Modules = append(g.Modules, registry.GitHubModule{Repository: name, Address: h.Module, Dir: strings.Trim(h.Subdir, "/")})
			if err := g.Validate(); err != nil {
				return nil, syntax.WrongAt(h.Range, err)
			}
		}
		delete(hooks, strings.ToLower(c.Owner))
		out = append(out, g)
	}
	for _, left := range hooks {
		return nil, syntax.WrongAt(left[0].Range, fmt.Errorf("hook %q: no github block for this owner", left[0].Repository))
	}
	return out, nil
}

func (c GitHub) owner(env Env) (registry.GitHub, error) {
	g := registry.GitHub{Owner: c.Owner, Namespace: c.Namespace}
	auth, err := c.ownerAuth()
	if err != nil {
		return g, err
	}
	if err := env.CheckAuth(auth); err != nil {
		return g, err
	}
	g.Origins = func() (supply.Origins, error) { return env.Origins(auth) }
	if c.SecretEnv != "" {
		secret, err := env.Secret(c.SecretEnv, "")
		if err != nil {
			return g, err
		}
		g.Secrets = append(g.Secrets, []byte(secret))
	}
	for _, file := range c.SecretFiles {
		secret, err := env.Secret("", file)
		if err != nil {
			return g, err
		}
		g.Secrets = append(g.Secrets, []byte(secret))
	}
	return g, g.Validate()
}

// ownerAuth returns the credential for this owner alone.
func (c GitHub) ownerAuth() (supply.Auth, error) {
	host := "github.com"
	if u, err := url.Parse(c.APIURL); err == nil && u.Host != "" {
		host = strings.TrimPrefix(u.Hostname(), "api.")
	}
	a := supply.Auth{
		Host: host + "/" + c.Owner, TokenEnv: c.TokenEnv, File: c.TokenFile, APIURL: c.APIURL,
		AppID: c.AppID, Installation: c.Install, KeyFile: c.KeyFile,
	}
	return a, a.Validate()
}
