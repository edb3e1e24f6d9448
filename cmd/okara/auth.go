// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
)

// newAuth groups the commands that look at credentials.
func newAuth(a *app) *cobra.Command {
	cmd := parent("auth", "access", "Explain and convert credentials")
	cmd.AddCommand(newAuthExplain(a), newAuthEmit(a), newAuthToken(a))
	return cmd
}

// target is what a user wants credentials for: HOST[:PORT][/PATH][:TAG|@DIGEST].
type target struct{ host, repository, ref string }

func parseTarget(s string) (target, error) {
	rest := strings.TrimPrefix(s, "oci://")
	if strings.Contains(rest, "://") {
		return target{}, usageError("reference %q: write HOST[:PORT]/PATH without a scheme", s)
	}
	host, path, _ := strings.Cut(rest, "/")
	path, digest, _ := strings.Cut(path, "@")
	name, tag := path, ""
	if i := strings.LastIndexByte(path, ':'); i >= 0 {
		name, tag = path[:i], path[i+1:]
	}
	t := target{host: host, repository: strings.Trim(name, "/"), ref: tag}
	if digest != "" {
		t.ref = digest
	}
	if _, err := oci.New(t.String(), oci.Options{}); err != nil {
		return target{}, usageError("%w", err)
	}
	return t, nil
}

func (t target) String() string {
	if t.repository == "" {
		return t.host
	}
	return t.host + "/" + t.repository
}

// parseHost accepts a registry without a path.
func parseHost(s string) (string, error) {
	t, err := parseTarget(s)
	if err != nil {
		return "", err
	}
	if t.repository != "" || t.ref != "" {
		return "", withHint(usageError("%q is not the name of a registry", s), "write HOST[:PORT] without a path")
	}
	return t.host, nil
}

// explicitCredentials are those given for the registry of --registry itself:
// the usual way to hand a secret to a server or a job. They are for no other
// registry, since a mirror run talks to many.
func (a *app) explicitCredentials() []credentials.Setting {
	where := cmp.Or(a.registry, a.getenv("OKARA_REGISTRY"))
	c := oci.Credential{Username: a.getenv("OKARA_USERNAME"), Password: a.getenv("OKARA_PASSWORD")}
	if where == "" || c.Password == "" {
		return nil
	}
	return []credentials.Setting{{Origin: "variables OKARA_USERNAME and OKARA_PASSWORD", Prefix: where, Credential: c}}
}

// transportOptions are what the global flags say about TLS.
func (a *app) transportOptions() httpserve.TransportOptions {
	return httpserve.TransportOptions{
		CAFile: a.caFile, ClientCert: a.cert, ClientKey: a.key, Insecure: a.insecure, CertDirs: a.certDirs(),
	}
}

// certDirs are where Docker and Podman have the certificates of single
// registries.
func (a *app) certDirs() []string {
	if runtime.GOOS == "windows" {
		return []string{filepath.Join(a.getenv("ProgramData"), "docker", "certs.d")}
	}
	list := []string{"/etc/docker/certs.d", "/etc/containers/certs.d"}
	own := a.getenv("XDG_CONFIG_HOME")
	if home := a.getenv("HOME"); own == "" && home != "" {
		own = filepath.Join(home, ".config")
	}
	if own != "" {
		list = append(list, filepath.Join(own, "docker", "certs.d"), filepath.Join(own, "containers", "certs.d"))
	}
	return list
}

// noCredential is the error of commands that print a credential.
func noCredential(t target) error {
	return withHint(fmt.Errorf("no credentials for %s: %w", t, oci.ErrNotFound), "log in with `okara login %s`", t.host)
}
