// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/upstream"
)

const depotLong = `Keep a registry filled from a depot file: which modules and providers it shall
hold, from which origins, in which versions.

A run publishes what is missing and removes what retention lets go. What is
published never changes: an origin that moved a tag is reported as drift. The
same file can be run by okara serve --depot on an interval.`

// depotFlags are the flags of all depot commands.
type depotFlags struct {
	file   string
	usedBy []string
	jobs   int
}

func newDepot(a *app) *cobra.Command {
	cmd := parent("depot", "artifacts", "Keep a registry filled from a depot file")
	cmd.Long = depotLong
	cmd.AddCommand(newDepotValidate(a), newDepotPlan(a), newDepotApply(a), newDepotStatus(a), newDepotImport(a))
	return cmd
}

func (f *depotFlags) add(a *app, cmd *cobra.Command) {
	addAllowInternal(cmd.Flags(), &a.origins.allowed)
	cmd.Flags().StringVarP(&f.file, "file", "f", "depot.hcl", "depot `FILE`, HCL or JSON")
	cmd.Flags().StringArrayVar(&f.usedBy, "used-by", nil, "lock `FILE`, or folder of them, whose versions retention keeps (repeatable)")
	cmd.Flags().IntVar(&f.jobs, "jobs", 4, "entries worked on at a time")
}

func readSet(file string) (*depot.Set, error) {
	set, err := depot.ReadSet(file)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return set, nil
}

// syncer returns what runs a depot file against its registry. done ends the
// progress bars.
func (a *app) syncer(f depotFlags) (s *depot.Syncer, done func(), err error) {
	set, err := readSet(f.file)
	if err != nil {
		return nil, nil, err
	}
	if a.registry == "" && set.Registry != "" {
		a.registry = set.Registry
	}
	d, done, err := a.depot()
	if err != nil {
		return nil, nil, err
	}
	s, err = a.newSyncer(set, d, f)
	return s, done, err
}

func (a *app) newSyncer(set *depot.Set, d *depot.Depot, f depotFlags) (*depot.Syncer, error) {
	used, err := usedVersions(f.usedBy)
	if err != nil {
		return nil, err
	}
	if _, err := a.upstreamClient(namedBy(set)...); err != nil {
		return nil, err
	}
	origins := func(name string) (depot.Origins, error) {
		from, err := a.originSet.get(a, set.Auth[name])
		if err != nil {
			return from, fmt.Errorf("auth %q: %w", name, err)
		}
		return from, nil
	}
	return depot.NewSyncer(d, depot.SyncOptions{Set: set, Origins: origins, Used: used, Jobs: f.jobs}), nil
}

// usedVersions reads lock files, and what "init" installed beside them, and
// returns which versions are in use. States name no versions.
func usedVersions(names []string) (func(entry string, v addr.Version) bool, error) {
	used := map[string]bool{}
	files, err := lockFiles(names)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		l, err := readLockFile(name)
		if err != nil {
			return nil, err
		}
		for _, p := range l.Providers {
			used[addr.KindMirror+" "+p.Address.String()+" "+p.Version.String()] = true
		}
		modules, err := installedModules(filepath.Join(filepath.Dir(name), ".terraform", "modules", "modules.json"))
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			used[addr.KindModule+" "+m.Module.String()+" "+m.Version.String()] = true
		}
	}
	return func(entry string, v addr.Version) bool { return used[entry+" "+v.String()] }, nil
}

// installedModules reads the list that tofu and terraform keep of the modules
// they installed; those that did not come from a registry have no version.
func installedModules(name string) ([]addr.ModuleVersion, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Modules []struct{ Source, Version string }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []addr.ModuleVersion
	for _, m := range doc.Modules {
		parts := strings.Split(m.Source, "/") // HOST/NAMESPACE/NAME/SYSTEM, perhaps //DIR
		if len(parts) < 4 {
			continue
		}
		module, err := addr.ParseModule(strings.Join(parts[1:4], "/"))
		v, verr := addr.ParseVersion(m.Version)
		if err == nil && verr == nil {
			out = append(out, addr.ModuleVersion{Module: module, Version: v})
		}
	}
	return out, nil
}

// originSet makes the ways to the outside, once for each auth block and process,
// so that conditional requests and rate limits are shared by all runs.
type originSet struct {
	mu   sync.Mutex // guards made
	made map[depot.Auth]depot.Origins
}

// get returns the origins for a credential, the zero value for none.
func (o *originSet) get(a *app, auth depot.Auth) (depot.Origins, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from, ok := o.made[auth]; ok {
		return from, nil
	}
	from, err := a.newOrigins(auth)
	if err != nil {
		return depot.Origins{}, err
	}
	if o.made == nil {
		o.made = map[depot.Auth]depot.Origins{}
	}
	o.made[auth] = from
	return from, nil
}

func (a *app) newOrigins(auth depot.Auth) (depot.Origins, error) {
	token, api, err := a.authToken(auth)
	if err != nil {
		return depot.Origins{}, err
	}
	client, err := a.upstreamClient()
	if err != nil {
		return depot.Origins{}, err
	}
	if api != nil {
		a.origins.guard.Named(upstream.HostPort(api))
	}
	client.Token = token
	return depot.Origins{
		Client: client, Git: a.git(token), GitHub: upstream.NewGitHub(client.HTTP, api, token), Open: a.openOrigin,
		Provider: func(origin string) (depot.Source, error) {
			if origin == "" {
				return &upstream.Registry{Client: client}, nil
			}
			return a.providerSource(origin, "")
		},
		Registry: func(host string) (*upstream.ModuleRegistry, error) {
			return &upstream.ModuleRegistry{Client: client, Host: host}, nil
		},
	}, nil
}

// authToken returns the token function of an auth block: its token for its host,
// or for one owner on it (github.com/acme), else what the CLI configuration has.
// A missing secret is an error at once.
func (a *app) authToken(auth depot.Auth) (upstream.TokenFunc, *url.URL, error) {
	if auth == (depot.Auth{}) {
		return func(key string) string {
			host, _, _ := strings.Cut(key, "/")
			return a.hostToken(host)
		}, nil, nil
	}
	var api *url.URL
	var err error
	if auth.APIURL != "" {
		if api, err = url.Parse(auth.APIURL); err != nil {
			return nil, nil, fmt.Errorf("api_url: %w", err)
		}
	}
	secret, err := a.authSecret(auth, api)
	if err != nil {
		return nil, nil, err
	}
	return func(key string) string {
		host, _, _ := strings.Cut(key, "/")
		if key == auth.Host || host == auth.Host || api != nil && host == api.Hostname() {
			return secret()
		}
		return a.hostToken(host)
	}, api, nil
}

// authSecret returns what gives the current token of an auth block. It fails at
// once if there is none; a token of a GitHub App is renewed later.
func (a *app) authSecret(auth depot.Auth, api *url.URL) (func() string, error) {
	if auth.AppID == 0 {
		token, err := a.secret(auth.TokenEnv, auth.File)
		return func() string { return token }, err
	}
	key, err := a.appKey(auth)
	if err != nil {
		return nil, err
	}
	var named []string
	if api != nil {
		named = append(named, upstream.HostPort(api))
	}
	client, err := a.upstreamClient(named...)
	if err != nil {
		return nil, err
	}
	gh := &upstream.App{HTTP: client.HTTP, API: api, ID: auth.AppID, Installation: auth.Installation, Key: key}
	if _, err := gh.Token(context.Background()); err != nil {
		return nil, err
	}
	return func() string {
		token, err := gh.Token(context.Background())
		if err != nil {
			a.warnLogger().Warn("depot: going on without a token", "error", err)
		}
		return token
	}, nil
}

// checkAuth fails if a secret that an auth block names is not there. It asks
// nobody.
func (a *app) checkAuth(auth depot.Auth) error {
	var err error
	if auth.AppID != 0 {
		_, err = a.appKey(auth)
	} else {
		_, err = a.secret(auth.TokenEnv, auth.File)
	}
	return err
}

// appKey reads the private key of a GitHub App.
func (a *app) appKey(auth depot.Auth) (*rsa.PrivateKey, error) {
	text, err := a.secret("", auth.KeyFile)
	if err != nil {
		return nil, err
	}
	key, err := parseRSAKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", auth.KeyFile, err)
	}
	return key, nil
}

// parseRSAKey reads the private key that GitHub hands out, PKCS #1 or #8 in PEM.
func parseRSAKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not a PEM file")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("not an RSA private key")
	}
	return key, nil
}

// maxSecret bounds a token.
const maxSecret = 16 << 10

// secret reads a variable if it is named, else a file that only its owner reads.
func (a *app) secret(variable, file string) (string, error) {
	if variable != "" {
		s := strings.TrimSpace(a.getenv(variable))
		if s == "" {
			return "", fmt.Errorf("the variable %s is empty", variable)
		}
		return s, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", withHint(fmt.Errorf("%s can be read by others", file), "chmod 600 %s", file)
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s has %d bytes, a token has fewer", file, info.Size())
	}
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}
