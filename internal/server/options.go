// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/blobcache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/registry"
)

// options puts the front-end together and opens what is behind it.
func (s *Settings) options(env Env) (o Options, back backend, err error) {
	o = Options{
		Options: registry.Options{
			Hostname: s.Hostname, TagTTL: s.Cache.TagTTL.value(), Logger: env.Log,
			Modules: registry.Modules{Answer: s.Modules.Answer, Registry: s.Modules.Registry},
			Blobs:   blobcache.Options{Dir: cmp.Or(s.Cache.Dir, filepath.Join(s.Storage, "blobs")), Bytes: s.Cache.Blobs.value()},
		},
		BasePath: s.BasePath, PublicURL: s.PublicURL, Transport: env.OCI.Transport, Metrics: NewMetrics(), HideMetrics: s.Metrics != "",
	}
	if o.Access, err = s.access(); err != nil {
		return o, back, err
	}
	if back, err = s.backend(env, o.Metrics); err != nil {
		return o, back, err
	}
	o.Client, o.Embedded, o.Files = back.client, back.embedded, back.files
	o.DeniedMeansMissing = back.client.Host() == "ghcr.io" // it refuses to tell that a repository is missing
	if s.Hide != nil {
		o.DeniedMeansMissing = *s.Hide
	}
	if s.Pass {
		if back.with == nil {
			return o, back, &SettingError{errors.New("--pass-through needs a registry that knows the callers\nhint: name it with --registry HOST[/PREFIX]")}
		}
		o.PassThrough = back.with
	}
	if err := s.layout(&back.layout); err != nil {
		return o, back, err
	}
	o.Layout = back.layout
	if o.Proxies, err = prefixes(s.ProxiesRange, s.Proxies); err != nil {
		return o, back, err
	}
	if o.Revoked, err = catalog.ParseRevokedKeys(s.RevokedKeys); err != nil {
		return o, back, settingError(s.RevokedRange, err)
	}
	if o.Archives, err = s.archives(); err != nil {
		return o, back, err
	}
	if o.Keys, err = s.keys(); err != nil {
		return o, back, err
	}
	if o.Require, err = s.require(); err != nil {
		return o, back, err
	}
	if o.Login, err = s.login(); err != nil {
		return o, back, err
	}
	if o.GitHub, err = s.github(env); err != nil {
		return o, back, err
	}
	if o.PullThrough, err = s.pullRules(env, o.Metrics); err != nil {
		return o, back, err
	}
	o.State = stateServer(back, env.States, env.Log)
	return o, back, nil
}

// layout sets all but the prefix.
func (s *Settings) layout(to *addr.Layout) error {
	l := s.Layout
	*to = addr.Layout{
		Prefix: to.Prefix, Modules: l.Modules, Providers: l.Providers, Mirror: l.Mirror, State: l.State, StatePrimary: l.Primary, Catalog: l.Catalog, Queue: l.Queue,
	}
	if err := to.Validate(); err != nil {
		return settingError(l.Range, err)
	}
	return nil
}

// archives says how archives are linked and delivered.
func (s *Settings) archives() (registry.Archives, error) {
	a := s.Archives
	networks, err := prefixes(a.Range, a.StreamFor)
	return registry.Archives{TTL: a.TTL.value(), Redirect: a.Redirect, StreamFor: networks}, err
}

// keys reads the keys of links: the first file signs, all are good. Where no file
// is named there is one in the storage.
func (s *Settings) keys() ([]access.Key, error) {
	if len(s.Archives.KeyFiles) == 0 {
		key, err := archiveKey(filepath.Join(s.Storage, "archive.key"))
		return []access.Key{key}, err
	}
	var keys []access.Key
	for _, file := range s.Archives.KeyFiles {
		key, err := readArchiveKey(file)
		if err != nil {
			return nil, settingError(s.Archives.Range, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
