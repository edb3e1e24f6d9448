// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/registry"
)

// githubConfig is an organisation, or user, of GitHub whose webhooks publish
// modules.
type githubConfig struct {
	Owner       string    `hcl:"owner,label"`
	SecretFiles []string  `hcl:"secret_files,optional"`
	SecretEnv   string    `hcl:"secret_env,optional"`
	Namespace   string    `hcl:"namespace,optional"`
	TokenEnv    string    `hcl:"token_env,optional"`
	TokenFile   string    `hcl:"token_file,optional"`
	APIURL      string    `hcl:"api_url,optional"`
	AppID       int64     `hcl:"app_id,optional"`
	Install     int64     `hcl:"installation_id,optional"`
	KeyFile     string    `hcl:"private_key_file,optional"`
	Range       hcl.Range `hcl:",def_range"`
}

// hookConfig says which modules a repository holds.
type hookConfig struct {
	Repository string    `hcl:"repository,label"` // OWNER/NAME
	Module     string    `hcl:"module"`
	Subdir     string    `hcl:"subdir,optional"`
	Range      hcl.Range `hcl:",def_range"`
}

// serveGitHub reads the github and hook blocks and the secrets that they name.
// Nothing is asked of GitHub, which may be down when the server starts.
func (a *app) serveGitHub(c *serveConfig) ([]registry.GitHub, error) {
	hooks := map[string][]hookConfig{}
	for _, h := range c.Hooks {
		owner, _, ok := strings.Cut(h.Repository, "/")
		if !ok {
			return nil, configError(h.Range, fmt.Errorf("hook %q: want OWNER/REPOSITORY", h.Repository))
		}
		hooks[strings.ToLower(owner)] = append(hooks[strings.ToLower(owner)], h)
	}
	var out []registry.GitHub
	for _, c := range c.GitHub {
		if slices.ContainsFunc(out, func(g registry.GitHub) bool { return strings.EqualFold(g.Owner, c.Owner) }) {
			return nil, configError(c.Range, fmt.Errorf("github %q is there twice", c.Owner))
		}
		g, err := a.githubOwner(c)
		if err != nil {
			return nil, configError(c.Range, fmt.Errorf("github %q: %w", c.Owner, err))
		}
		for _, h := range hooks[strings.ToLower(c.Owner)] {
			_, name, _ := strings.Cut(h.Repository, "/")
			g.Modules = append(g.Modules, registry.GitHubModule{Repository: name, Address: h.Module, Dir: strings.Trim(h.Subdir, "/")})
			if err := g.Validate(); err != nil {
				return nil, configError(h.Range, err)
			}
		}
		delete(hooks, strings.ToLower(c.Owner))
		out = append(out, g)
	}
	for _, left := range hooks {
		return nil, configError(left[0].Range, fmt.Errorf("hook %q: there is no github block for this owner", left[0].Repository))
	}
	return out, nil
}

func (a *app) githubOwner(c githubConfig) (registry.GitHub, error) {
	g := registry.GitHub{Owner: c.Owner, Namespace: c.Namespace}
	auth, err := c.auth()
	if err != nil {
		return g, err
	}
	if auth.AppID != 0 {
		_, err = a.appKey(auth)
	} else {
		_, err = a.secret(auth.TokenEnv, auth.File)
	}
	if err != nil {
		return g, err
	}
	g.Origins = func() (depot.Origins, error) { return a.originSet.get(a, auth) }
	if c.SecretEnv != "" {
		secret, err := a.secret(c.SecretEnv, "")
		if err != nil {
			return g, err
		}
		g.Secrets = append(g.Secrets, []byte(secret))
	}
	for _, file := range c.SecretFiles {
		secret, err := a.secret("", file)
		if err != nil {
			return g, err
		}
		g.Secrets = append(g.Secrets, []byte(secret))
	}
	return g, g.Validate()
}

// auth is the credential for this owner alone.
func (c githubConfig) auth() (depot.Auth, error) {
	host := "github.com"
	if c.APIURL != "" {
		u, err := url.Parse(c.APIURL)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !loopback(u.Hostname()) {
			return depot.Auth{}, errors.New("api_url is not an https address such as https://github.example.com/api/v3/")
		}
		host = strings.TrimPrefix(u.Hostname(), "api.")
	}
	given := 0
	for _, set := range []bool{c.TokenEnv != "", c.TokenFile != "", c.AppID != 0} {
		if set {
			given++
		}
	}
	if given != 1 {
		return depot.Auth{}, errors.New("want one of token_file, token_env and app_id to read its repositories with")
	}
	if c.AppID != 0 && (c.Install == 0 || c.KeyFile == "") {
		return depot.Auth{}, errors.New("app_id needs installation_id and private_key_file")
	}
	return depot.Auth{
		Host: host + "/" + c.Owner, TokenEnv: c.TokenEnv, File: c.TokenFile, APIURL: c.APIURL,
		AppID: c.AppID, Installation: c.Install, KeyFile: c.KeyFile,
	}, nil
}
