// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// class ranks the sources; it decides between equally specific matches.
type class int

const (
	classExplicit class = iota
	classCLI
	classHelper
	classFile
	classEnvironment
)

// entry is one credential, or one helper that provides it, under one key.
type entry struct {
	raw    string // the key as written, for messages
	key    key
	weak   bool // matches its host as a default only
	cred   oci.Credential
	helper string
	ident  bool   // the workload's own login
	token  string // as written in a credentials block or TF_TOKEN_... variable, for services
}

// source is one location that was read, and its entries.
type source struct {
	class    class
	name     string
	location string
	entries  []entry
	err      error // what was skipped; nil if the file is missing
	missing  bool
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// loadSources reads what does not depend on the requested registry. ambient is false if only
// explicit settings and the CLI configuration are allowed.
func (r *Resolver) loadSources() (_ []source, ambient bool) {
	explicit := make([]source, 0, len(r.o.Explicit))
	for _, s := range r.o.Explicit {
		explicit = append(explicit, source{
			class: classExplicit, name: Explicit, location: s.Origin,
			entries: []entry{{raw: s.Prefix, key: parseKey(s.Prefix), cred: s.Credential, helper: s.Helper}},
		})
	}
	cli, around := loadCLI(r.locations)
	list := append(explicit, cli...)
	if around.off {
		return list, false
	}
	helpers, static := loadDockerStyle(r.locations, around)
	list = append(append(list, helpers...), static...)
	return append(list, environment(r.o.Getenv)...), true
}

func loadCLI(p locations) ([]source, ambient) {
	var list []source
	var around ambient
	for _, pl := range p.cliFiles() {
		s := source{class: classCLI, name: pl.source, location: pl.file}
		b, err := files.ReadLimited(pl.file, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.missing = true
		case err != nil:
			s.err = err
		default:
			var a ambient
			s.entries, a, s.err = parseCLIConfig(b, filepath.Dir(pl.file))
			around.off = around.off || a.off
			if a.fixed {
				around.fixed = true
				around.files = append(around.files, a.files...)
			}
		}
		list = append(list, s)
	}
	return list, around
}

// loadDockerStyle reads each Docker-style file once, as two sources: all helpers rank first.
func loadDockerStyle(p locations, around ambient) (helpers, static []source) {
	add := func(name, location string, b []byte, legacy bool, err error) {
		h := source{class: classHelper, name: name, location: location}
		f := source{class: classFile, name: name, location: location}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			f.missing = true
		case err != nil:
			f.err = err
		default:
			h.entries, f.entries, f.err = parseDocker(b, legacy)
		}
		if len(h.entries) > 0 {
			helpers = append(helpers, h)
		}
		static = append(static, f)
	}
	if around.fixed {
		for _, file := range around.files {
			b, err := files.ReadLimited(file, maxFile)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%s in docker_style_config_files does not exist", file)
			}
			add("docker_style_config_files", file, b, false, err)
		}
		return helpers, static
	}
	if v := p.getenv("DOCKER_AUTH_CONFIG"); v != "" {
		add("DOCKER_AUTH_CONFIG", "variable DOCKER_AUTH_CONFIG", []byte(v), false, nil)
	}
	for _, pl := range p.dockerFiles() {
		b, err := files.ReadLimited(pl.file, maxFile)
		add(pl.source, pl.file, b, filepath.Base(pl.file) == ".dockercfg", err)
	}
	return helpers, static
}

// environment returns the credentials of CI jobs: weak, as an exported one must not beat a login.
func environment(getenv func(string) string) []source {
	var list []source
	add := func(variable, host, user, secret string) {
		s := source{class: classEnvironment, name: "environment", location: "variable " + variable}
		if host == "" || secret == "" {
			s.missing = true
		} else {
			s.entries = []entry{{raw: host, key: key{host: normalHost(host)}, weak: true,
				cred: oci.Credential{Username: user, Password: secret}}}
		}
		list = append(list, s)
	}
	actor := getenv("GITHUB_ACTOR")
	if actor == "" {
		actor = "github-actions" // GHCR reads only the token, but requires a user name
	}
	add("GITHUB_TOKEN", "ghcr.io", actor, getenv("GITHUB_TOKEN"))
	registry := getenv("CI_REGISTRY")
	if user := getenv("CI_REGISTRY_USER"); user != "" {
		add("CI_REGISTRY_PASSWORD", registry, user, getenv("CI_REGISTRY_PASSWORD"))
	}
	add("CI_JOB_TOKEN", registry, "gitlab-ci-token", getenv("CI_JOB_TOKEN"))
	return list
}

// tokenVariables returns the TF_TOKEN_... source for one host. The tools encode a dot as one
// underscore and a dash as two, and also accept both unchanged.
func tokenVariables(getenv func(string) string, host string) source {
	const prefix = "TF_TOKEN_"
	dots := strings.NewReplacer(".", "_")
	both := strings.NewReplacer(".", "_", "-", "__")
	dashes := strings.NewReplacer("-", "__")
	s := source{class: classCLI, name: "environment", location: "variable " + prefix + both.Replace(host), missing: true}
	for _, name := range []string{both.Replace(host), dots.Replace(host), dashes.Replace(host), host} {
		if token := getenv(prefix + name); token != "" {
			s.location = "variable " + prefix + name
			s.missing = false
			s.entries = []entry{{raw: host, key: key{host: host}, cred: DecodeToken(token), token: token}}
			return s
		}
	}
	return s
}
