// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/registry"
)

// GitHub is an organisation, or user, of GitHub whose webhooks publish
// modules.
type GitHub struct {
	Owner       string    `hcl:"owner,label"`
	SecretFiles []string  `hcl:"secret_files,optional"`     // secrets of the webhook
	SecretEnv   string    `hcl:"secret_env,optional"`       // variable with another one
	Namespace   string    `hcl:"namespace,optional"`        // of its modules, instead of the owner
	TokenEnv    string    `hcl:"token_env,optional"`        // variable with a token to read repositories with
	TokenFile   string    `hcl:"token_file,optional"`       // the same from a file
	APIURL      string    `hcl:"api_url,optional"`          // of GitHub Enterprise
	AppID       int64     `hcl:"app_id,optional"`           // the same as a GitHub App
	Install     int64     `hcl:"installation_id,optional"`  // of the App at the owner
	KeyFile     string    `hcl:"private_key_file,optional"` // of the App
	Range       hcl.Range `hcl:",def_range"`
}

// Hook says which modules a repository holds.
type Hook struct {
	Repository string    `hcl:"repository,label"` // OWNER/NAME
	Module     string    `hcl:"module"`           // its address
	Subdir     string    `hcl:"subdir,optional"`  // its folder
	Range      hcl.Range `hcl:",def_range"`
}

// github reads the github and hook blocks and the secrets that they name.
// Nothing is asked of GitHub, which may be down when the server starts.
func (o *Origins) github(env Env) ([]registry.GitHub, error) {
	hooks := map[string][]Hook{}
	for _, h := range o.Hooks {
		owner, _, ok := strings.Cut(h.Repository, "/")
		if !ok {
			return nil, syntax.WrongAt(h.Range, fmt.Errorf("hook %q: want OWNER/REPOSITORY", h.Repository))
		}
		hooks[strings.ToLower(owner)] = append(hooks[strings.ToLower(owner)], h)
	}
	var out []registry.GitHub
	for _, c := range o.GitHub {
		if slices.ContainsFunc(out, func(g registry.GitHub) bool { return strings.EqualFold(g.Owner, c.Owner) }) {
			return nil, syntax.WrongAt(c.Range, fmt.Errorf("github %q is there twice", c.Owner))
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
		return nil, syntax.WrongAt(left[0].Range, fmt.Errorf("hook %q: there is no github block for this owner", left[0].Repository))
	}
	return out, nil
}

func (c GitHub) owner(env Env) (registry.GitHub, error) {
	g := registry.GitHub{Owner: c.Owner, Namespace: c.Namespace}
	auth, err := c.auth()
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

// auth is the credential for this owner alone.
func (c GitHub) auth() (supply.Auth, error) {
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
