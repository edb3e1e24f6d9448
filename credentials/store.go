// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docker/cli/cli/config/types"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// Login stores a credential for a host as docker login does: in the credential
// helper that the Docker configuration names for it, or else in that file
// itself. Other keys of the file are preserved; the file is replaced atomically
// and readable only by its owner. Login returns where the credential is stored.
func (r *Resolver) Login(ctx context.Context, host string, c oci.Credential) (where string, err error) {
	f, err := r.openDockerFile()
	if err != nil {
		return "", err
	}
	k := serverKey(host)
	entry := types.AuthConfig{
		IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken,
		Auth: base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)),
	}
	where = f.name
	if name := f.helperFor(host); name != "" {
		if err := r.program(name).store(ctx, k, c); err != nil {
			return "", err
		}
		// As in Docker, the file then only records that there is an entry.
		where = "credential helper " + name
		entry = types.AuthConfig{}
	}
	f.remove(host)
	if err := f.set(k, entry); err != nil {
		return "", err
	}
	if err := f.save(); err != nil {
		return "", err
	}
	r.forget(host)
	return where, nil
}

// Logout removes the credentials that Login stored for a host and returns the
// locations where there were any.
func (r *Resolver) Logout(ctx context.Context, host string) (where []string, err error) {
	f, err := r.openDockerFile()
	if err != nil {
		return nil, err
	}
	if name := f.helperFor(host); name != "" {
		erased, err := r.program(name).eraseAll(ctx, normalHost(host))
		if err != nil {
			return nil, err
		}
		if erased {
			where = append(where, "credential helper "+name)
		}
	}
	removed, secret := f.remove(host)
	if removed {
		if err := f.save(); err != nil {
			return where, err
		}
	}
	if secret {
		where = append(where, f.name)
	}
	r.forget(host)
	return where, nil
}

// forget drops the cached data about a host.
func (r *Resolver) forget(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = nil
	for q := range r.answers {
		if q.host == normalHost(host) {
			delete(r.answers, q)
		}
	}
}

// serverKey returns the key under which Docker stores a host.
func serverKey(host string) string {
	if host = normalHost(host); host == hubHost {
		return hubKey
	}
	return host
}

// dockerDocument is the Docker configuration as stored on disk, including all
// keys that okara does not know.
type dockerDocument struct {
	name  string
	top   map[string]json.RawMessage
	auths map[string]json.RawMessage
}

func (r *Resolver) openDockerFile() (*dockerDocument, error) {
	f := &dockerDocument{name: r.locations.dockerConfig(), top: map[string]json.RawMessage{}, auths: map[string]json.RawMessage{}}
	if f.name == "" {
		return nil, errors.New("credentials cannot be stored: there is no home directory and DOCKER_CONFIG is not set")
	}
	b, err := readFile(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read docker configuration: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(b, &f.top); err != nil {
		return nil, fmt.Errorf("read docker configuration %s: %w", f.name, jsonError(err))
	}
	if raw, ok := f.top["auths"]; ok {
		if err := json.Unmarshal(raw, &f.auths); err != nil {
			return nil, fmt.Errorf("read docker configuration %s: auths: %w", f.name, jsonError(err))
		}
	}
	if f.auths == nil || f.top == nil { // "null" is valid JSON
		return nil, fmt.Errorf("read docker configuration %s: null is not a configuration", f.name)
	}
	return f, nil
}

// helperFor returns the helper that stores a host; "" if the file itself does.
func (f *dockerDocument) helperFor(host string) string {
	var helpers map[string]string
	var store string
	// A value of an unexpected type names no helper.
	_ = json.Unmarshal(f.top["credHelpers"], &helpers)
	_ = json.Unmarshal(f.top["credsStore"], &store)
	for _, k := range sortedKeys(helpers) {
		if parseKey(k) == (key{host: normalHost(host)}) {
			return helpers[k]
		}
	}
	return store
}

// remove deletes every spelling of a host. Entries for paths below it are kept.
func (f *dockerDocument) remove(host string) (removed, secret bool) {
	for k, raw := range f.auths {
		if parseKey(k) != (key{host: normalHost(host)}) {
			continue
		}
		c, err := parseAuth(raw)
		secret = secret || err != nil || c != oci.Credential{}
		removed = true
		delete(f.auths, k)
	}
	return removed, secret
}

func (f *dockerDocument) set(k string, a types.AuthConfig) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write docker configuration: %w", err)
	}
	f.auths[k] = raw
	return nil
}

// save writes a new file beside the old one and replaces it. A symbolic link is
// followed, since some users keep the file elsewhere.
func (f *dockerDocument) save() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write docker configuration %s: %w", f.name, err)
		}
	}()
	if f.top["auths"], err = json.Marshal(f.auths); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(f.top); err != nil {
		return err
	}
	target := f.name
	if full, err := filepath.EvalSymlinks(f.name); err == nil {
		target = full
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return files.Replace(target, b.Bytes(), 0o600)
}
