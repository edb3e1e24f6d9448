// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
)

// Check returns what [Run] would find wrong in the settings and in the files and
// variables that they name, most of it as a [syntax.SettingError]. It asks nobody, takes
// no port and no storage, and makes nothing, so a server may run meanwhile.
func Check(s *Settings, env Env) error {
	o, err := s.options(env)
	if err != nil {
		return err
	}
	if o.Keys, err = s.keys(storedKey); err != nil {
		return err
	}
	if o.Client, err = oci.New(embedded.Host, oci.Options{PlainHTTP: true}); err != nil { // which New does not ask
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

// storedKey is the key of the storage, or what stands for it before the first
// start, which makes one.
func storedKey(file string) (access.Key, error) {
	key, err := readArchiveKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return access.Key{Secret: make([]byte, sha256.Size)}, nil
	}
	return key, err
}

// checkListeners looks at the certificate and at the addresses; that of the port
// itself was looked at with the rules of access.
func (s *Settings) checkListeners() error {
	if err := s.TLS.check(); err != nil {
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
