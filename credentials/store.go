// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/auth"
	orascredentials "oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// Login stores a credential for a host as docker login does: in the helper that the Docker
// configuration names for it, or else in that file, keeping its other keys, atomically and readable
// only by its owner. It returns where.
func (r *Resolver) Login(ctx context.Context, host string, c oci.Credential) (where string, err error) {
	f, err := r.openDockerFile()
	if err != nil {
		return "", err
	}
	k := serverKey(host)
	where = f.name
	stored := auth.Credential{Username: c.Username, Password: c.Password, RefreshToken: c.IdentityToken, AccessToken: c.RegistryToken}
	if name := f.helperFor(host); name != "" {
		if err := r.program(name).storeCredential(ctx, k, c); err != nil {
			return "", err
		}
		// As in Docker, the file then only records that there is an entry.
		where = "credential helper " + name
		stored = auth.EmptyCredential
	}
	if err := f.Put(ctx, k, stored); err != nil {
		return "", f.writeError(err)
	}
	if _, err := f.removeHost(ctx, host, k); err != nil {
		return "", err
	}
	r.forgetHost(host)
	return where, nil
}

// Logout removes what Login stored for a host and returns the locations where it was.
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
	secret, err := f.removeHost(ctx, host, "")
	if err != nil {
		return where, err
	}
	if secret {
		where = append(where, f.name)
	}
	r.forgetHost(host)
	return where, nil
}

func (r *Resolver) forgetHost(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = nil
	for q := range r.answers {
		if q.host == normalHost(host) {
			delete(r.answers, q)
		}
	}
}

func serverKey(host string) string {
	if host = normalHost(host); host == hubHost {
		return hubKey
	}
	return host
}

// dockerDocument is the Docker configuration. oras-go 2.7.0 writes it and keeps what okara does not
// know, also broken entries, which Docker's package would lose.
type dockerDocument struct {
	name string
	dockerFile
	*orascredentials.FileStore
}

func (r *Resolver) openDockerFile() (*dockerDocument, error) {
	f := &dockerDocument{name: r.locations.dockerConfig()}
	if f.name == "" {
		return nil, errors.New("cannot store credentials: no home directory, and DOCKER_CONFIG is not set")
	}
	b, err := files.ReadLimited(f.name, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read docker configuration: %w", err)
	}
	read := &f.dockerFile
	if err := decodeFirst(b, &read); err != nil {
		return nil, fmt.Errorf("read docker configuration %s: %w", f.name, jsonError(err))
	}
	if read == nil { // valid JSON, which oras-go cannot write to
		return nil, fmt.Errorf("read docker configuration %s: null is not a configuration", f.name)
	}
	target := f.name
	if full, err := filepath.EvalSymlinks(f.name); err == nil {
		target = full // some users keep the file elsewhere
	}
	if f.FileStore, err = orascredentials.NewFileStore(target); err != nil {
		return nil, fmt.Errorf("read docker configuration %s: %w", f.name, jsonError(err))
	}
	return f, nil
}

// helperFor returns the helper that stores a host; "" if the file itself does.
func (f *dockerDocument) helperFor(host string) string {
	for _, k := range sortedKeys(f.CredHelpers) {
		if parseKey(k) == (key{host: normalHost(host)}) {
			return f.CredHelpers[k]
		}
	}
	return f.CredsStore
}

// removeHost deletes every spelling of a host but one, and no entries for paths below it.
func (f *dockerDocument) removeHost(ctx context.Context, host, kept string) (secret bool, err error) {
	for k, raw := range f.Auths {
		if k == kept || parseKey(k) != (key{host: normalHost(host)}) {
			continue
		}
		if err := f.Delete(ctx, k); err != nil {
			return secret, f.writeError(err)
		}
		c, err := parseAuth(raw)
		secret = secret || err != nil || c != oci.Credential{}
	}
	return secret, nil
}

func (f *dockerDocument) writeError(err error) error {
	return fmt.Errorf("write docker configuration %s: %w", f.name, err)
}
