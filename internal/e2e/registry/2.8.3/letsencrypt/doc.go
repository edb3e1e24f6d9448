// SPDX-License-Identifier: Apache-2.0

// Package letsencrypt stands for rsc.io/letsencrypt, which cannot be downloaded any more, and
// which a registry on loopback does not need.
package letsencrypt

import (
	"crypto/tls"
	"errors"
)

// Manager keeps no certificates.
type Manager struct{}

// CacheFile refuses: a registry that asks for certificates does not start.
func (*Manager) CacheFile(string) error { return errors.ErrUnsupported }

// Registered and the rest are not reached.
func (*Manager) Registered() bool { return false }

func (*Manager) Register(string, func(string) bool) error { return errors.ErrUnsupported }

func (*Manager) SetHosts([]string) {}

func (*Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.ErrUnsupported
}
