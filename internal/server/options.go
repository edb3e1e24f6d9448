// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// newOptions converts settings, without effect; [Settings.openBackend] adds registry and keys.
func (s *Settings) newOptions(env Env) (o Options, err error) {
	o = Options{
		Options: registry.Options{
			Hostname: s.Hostname, PublicURL: s.PublicURL, BasePath: s.BasePath, TagTTL: s.Cache.TagTTL.Value(), Logger: env.Log,
			Modules: registry.Modules{Answer: s.Modules.Answer, Registry: s.Modules.Registry},
		},
		Transport: env.OCI.Transport, Metrics: NewMetrics(), HideMetrics: s.Metrics != "", MCP: s.MCP,
		Pages: !s.NoUI && (s.UI.Enabled == nil || *s.UI.Enabled), Version: env.Version,
	}
	if host, _, err := net.SplitHostPort(s.Listen); err == nil {
		o.Local = netaddr.IsLoopback(host)
	}
	o.off = s.UI.partsOff()
	if err = markdown.CheckImageHosts(s.UI.ImageHosts); err != nil {
		return o, syntax.WrongAt(s.UI.Range, fmt.Errorf("image_hosts: %w", err))
	}
	o.imageHosts = s.UI.ImageHosts
	if o.TFE = s.Cloud.tfeOptions(); o.TFE != nil {
		o.TFE.Folder = s.Storage
		if env.States.Sealer != nil {
			o.TFE.Sealer = env.States.Sealer
		}
	}
	o.certificate = s.TLS.Cert
	o.certificateKey = s.TLS.Key
	if s.Pass && s.Registry == "" {
		return o, &syntax.SettingError{Err: errors.New("--pass-through requires a registry that authenticates the callers\nhint: specify it with --registry HOST[/PREFIX]")}
	}
	if o.Access, err = s.accessPolicy(); err != nil {
		return o, err
	}
	if o.rules, err = s.rulesFile(); err != nil {
		return o, err
	}
	o.Access = o.Access.Add(o.rules)
	if s.RulesFile != "" {
		o.Metrics.noteRules(len(o.rules.Rules), nil)
	}
	if o.Layout, err = s.layout(); err != nil {
		return o, err
	}
	if o.Proxies, err = syntax.Networks(s.ProxiesRange, s.Proxies); err != nil {
		return o, err
	}
	if o.Revoked, err = catalog.ParseRevokedKeys(s.RevokedKeys); err != nil {
		return o, syntax.WrongAt(s.RevokedRange, err)
	}
	if o.Archives, err = s.Archives.archiveOptions(); err != nil {
		return o, err
	}
	if o.Require, err = s.Origins.requiredPolicies(); err != nil {
		return o, err
	}
	if o.Login, err = s.login(); err != nil {
		return o, err
	}
	if err = s.checkSessions(); err != nil {
		return o, err
	}
	if o.GitHub, err = s.Origins.readGitHub(env); err != nil {
		return o, err
	}
	if o.PullThrough, err = s.Origins.pullRules(env, o.Metrics); err != nil {
		return o, err
	}
	if s.Extension == nil {
		return o, nil
	}
	if err = s.Extension.Prepare(s, env); err != nil {
		return o, err
	}
	o.claim = s.Claim
	o.portalKeys, err = s.readPortalKeys()
	return o, err
}

// openBackend opens the registry, and creates the folders and keys that a first start needs.
func (s *Settings) openBackend(o *Options, env Env) (back backend, err error) {
	if back, err = s.newBackend(env, o.Metrics, o.Layout); err != nil {
		return back, err
	}
	back.layout = o.Layout
	o.Client = back.client
	o.Embedded = back.embedded
	o.acts = back.acts
	o.Files = back.files
	if back.own != nil {
		o.CheckSpace = back.own.CheckSpace
	}
	o.DeniedMeansMissing = back.client.Host() == "ghcr.io" // ghcr.io denies access to a repository that does not exist
	if s.Hide != nil {
		o.DeniedMeansMissing = *s.Hide
	}
	if s.Pass {
		o.PassThrough = back.with
	}
	o.Blobs = cache.BlobOptions{Dir: cmp.Or(s.Cache.Dir, filepath.Join(s.Storage, "blobs")), Bytes: s.Cache.Blobs.Value()}
	if o.States, err = s.states(back, env); err != nil {
		return back, err
	}
	kept := env.States
	kept.Usage = usage.RecordState(env.Getenv) // a client sends only the state
	o.Stores = newStateStores(back, kept, env.Log).storeNamed
	if o.Keys, err = s.linkKeys(archiveKey); err != nil {
		return back, err
	}
	o.Sessions, err = s.sessions(o)
	return back, err
}

// layout returns the names of repositories in the registry, below its prefix.
func (s *Settings) layout() (addr.Layout, error) {
	l := s.Layout
	out := addr.Layout{
		Modules: l.Modules, Providers: l.Providers, Mirror: l.Mirror, State: l.State, StatePrimary: l.Primary, Catalog: l.Catalog, Queue: l.Queue,
		Templates: l.Templates, Instances: l.Instances, Ledgers: l.Ledger, Split: s.Cloud.split(),
	}
	if s.Registry != "" {
		var err error
		if _, out.Prefix, err = addr.SplitRegistry(s.Registry); err != nil {
			return out, &syntax.SettingError{Err: err}
		}
	}
	if err := out.Validate(); err != nil {
		return out, syntax.WrongAt(l.Range, err)
	}
	return out, s.Cloud.checkOrganizations(out)
}

// archiveOptions returns how archives are linked and delivered.
func (a *Archives) archiveOptions() (registry.Archives, error) {
	networks, err := syntax.Networks(a.Range, a.StreamFor)
	return registry.Archives{TTL: a.TTL.Value(), Redirect: a.Redirect, StreamFor: networks}, err
}

// linkKeys reads the keys of links: the first signs, all are valid. Without files stored gives one.
func (s *Settings) linkKeys(stored func(file string) (keyring.Key, error)) ([]keyring.Key, error) {
	if s.Claim.Alone { // a portal has only session keys, and links to no archives
		return s.UI.sessionKeys(s.Storage, archiveKey)
	}
	if len(s.Archives.KeyFiles) == 0 {
		key, err := stored(filepath.Join(s.Storage, "archive.key"))
		return []keyring.Key{key}, err
	}
	var keys []keyring.Key
	for _, file := range s.Archives.KeyFiles {
		key, err := readArchiveKey(file)
		if err != nil {
			return nil, syntax.WrongAt(s.Archives.Range, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Check returns what [Run] would find wrong in settings and in files and variables that they name,
// mostly as a [syntax.SettingError]. It has no effect and uses no port: a server may run meanwhile.
func Check(s *Settings, env Env) error {
	o, err := s.newOptions(env)
	if err != nil {
		return err
	}
	if o.Keys, err = s.linkKeys(storedKey); err != nil {
		return err
	}
	if o.Client, err = oci.New(httpserve.OwnRegistry, oci.Options{PlainHTTP: true}); err != nil { // New sends no request to it
		return err
	}
	if _, err := New(o); err != nil {
		return &syntax.SettingError{Err: err}
	}
	if s.Depot != "" {
		if _, err := supply.ReadSet(s.Depot); err != nil {
			return &syntax.SettingError{Err: err}
		}
	}
	return s.checkListeners()
}

// storedKey returns the stored key, or a placeholder before the first start, which makes it.
func storedKey(file string) (keyring.Key, error) {
	key, err := readArchiveKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return keyring.Key{Secret: make([]byte, sha256.Size)}, nil
	}
	return key, err
}

// checkListeners checks the certificate and the metrics' address. Access control checks the other.
func (s *Settings) checkListeners() error {
	if err := s.TLS.checkFiles(); err != nil {
		return err
	}
	if s.TLS.Cert != "" {
		if _, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key); err != nil {
			return &syntax.SettingError{Err: fmt.Errorf("read the certificate: %w", err)}
		}
	}
	if s.Metrics != "" {
		if _, _, err := net.SplitHostPort(s.Metrics); err != nil {
			return &syntax.SettingError{Err: fmt.Errorf("--metrics-listen %q: %w", s.Metrics, err)}
		}
	}
	return nil
}
