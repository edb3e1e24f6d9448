// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Backend completes the arguments and refuses those that contradict each other.
func (a *Arguments) Backend() (Backend, error) {
	for _, check := range []func() error{a.checkRepository, a.checkVersions, a.checkTransport, a.checkEncryption} {
		if err := check(); err != nil {
			return a.backend, err
		}
	}
	if c := a.backend.Compression; !slices.Contains([]string{"", "zstd", "gzip", "none"}, c) {
		return a.backend, fmt.Errorf("unknown compression %q: must be zstd, gzip or none", c)
	}
	return a.backend, nil
}

func (a *Arguments) checkTransport() error {
	b := &a.backend
	if b.PlainHTTP && (b.CAFile != "" || b.Insecure) {
		return errors.New("plain_http conflicts with ca_file and insecure: no certificate to check without TLS")
	}
	if b.Insecure && b.CAFile != "" {
		return errors.New("insecure conflicts with ca_file: certificates are either verified or not")
	}
	r := b.Retry
	if r.MaxAttempts < 0 || r.MaxBackoff > 0 && r.InitialBackoff > r.MaxBackoff {
		return errors.New("retry: max_attempts must be positive, and initial_backoff at most max_backoff")
	}
	b.CAFile = a.resolvePath(b.CAFile)
	return nil
}

func (a *Arguments) checkEncryption() error {
	for i := range a.backend.Encryption {
		e := &a.backend.Encryption[i]
		if e.Type != "" && e.Type != "aes-gcm" {
			return fmt.Errorf("unknown encryption type %q: must be aes-gcm", e.Type)
		}
		if e.KeyID == "" && e.Identity == "" {
			return errors.New("an encryption block needs key_id: a KMS URL, an age recipient or the path of a key file")
		}
		e.KeyID = a.keyPath(e.KeyID)
		e.Identity = a.resolvePath(e.Identity)
	}
	return nil
}

func (a *Arguments) checkRepository() error {
	b := &a.backend
	switch {
	case b.Repository == "": // only the alias is set
		b.Repository = a.primary
	case a.primary != b.Repository:
		b.Primary = a.primary
	}
	if b.Repository == "" {
		return errors.New("backend \"oci\" has no repository\nhint: write repository = \"registry.example.com/state/shop\", or set TF_BACKEND_OCI_REPOSITORY")
	}
	for _, r := range append([]string{b.Repository, cmp.Or(b.Primary, b.Repository)}, b.Replicas...) {
		if err := checkReference(r); err != nil {
			return err
		}
	}
	if slices.Contains(b.Replicas, b.Repository) {
		return fmt.Errorf("repository %q is its own replica", b.Repository)
	}
	return nil
}

// checkReference refuses what cannot be a repository before a tool refuses its key less helpfully.
func checkReference(s string) error {
	hint := "hint: a repository is HOST[:PORT]/PATH without scheme and tag, such as registry.example.com/state/shop"
	_, path, hasPath := strings.Cut(s, "/")
	_, last, _ := cutLast(path, "/")
	_, after, at := cutLast(s, "@")
	emptyPart := slices.Contains(strings.Split(s, "/"), "")
	switch {
	case at && !strings.HasPrefix(after, "sha"): // not a digest
		return fmt.Errorf("repository %q contains credentials; use `okara login` instead\n%s", "***@"+after, hint)
	case strings.Contains(s, "://"):
		return fmt.Errorf("repository %q has a scheme\n%s", s, hint)
	case !hasPath || emptyPart:
		return fmt.Errorf("repository %q is not a registry and a path\n%s", s, hint)
	case strings.ContainsAny(last, ":@"):
		return fmt.Errorf("repository %q has a tag or a digest\n%s", s, hint)
	case strings.ContainsAny(s, " \t\n\"\\$"):
		return fmt.Errorf("repository %q has an invalid character\n%s", s, hint)
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

func (a *Arguments) checkVersions() error {
	v := a.versioning
	if v.max != nil && *v.max < 1 {
		return errors.New("versioning: max_versions must be at least 1")
	}
	switch {
	case v.enabled != nil && !*v.enabled && v.max != nil:
		return errors.New("versioning: enabled = false conflicts with max_versions")
	case v.enabled != nil && !*v.enabled:
		a.backend.MaxVersions = keptWhenDisabled
	case v.max != nil:
		a.backend.MaxVersions = *v.max
	}
	return nil
}

// resolvePath makes a path in the configuration independent of okara's working directory.
func (a *Arguments) resolvePath(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.dir, p)
}

// keyPath does the same for the forms of key_id that are files.
func (a *Arguments) keyPath(id string) string {
	if file, ok := strings.CutPrefix(id, "file://"); ok {
		return a.resolvePath(file)
	}
	if strings.Contains(id, "://") || strings.HasPrefix(id, "age1") {
		return id
	}
	return a.resolvePath(id)
}
