// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/seed-141914ff/okara/internal/diskfile"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
)

// classHint returns what helps against most errors of a class. It follows the
// cause: advice about the network is for those who got no answer.
func classHint(err error, code int) string {
	if open, ok := errors.AsType[*diskfile.ModeError](err); ok {
		return "chmod 600 " + open.Name
	}
	if _, ok := errors.AsType[*server.SettingError](err); ok {
		return "" // it names the place
	}
	switch {
	case code == exitUsage:
		return "run the command with --help for its arguments and examples"
	case errors.Is(err, oci.ErrUnauthenticated):
		return "log in with `okara login HOST`; `okara auth explain REFERENCE` shows which credentials are used"
	case errors.Is(err, oci.ErrDenied):
		return "the credentials are valid but may not do this; `okara auth explain REFERENCE` shows which ones are used"
	case errors.Is(err, oci.ErrRateLimited):
		return "wait and repeat the command; many registries allow more to those who are logged in (`okara login HOST`)"
	case isAny(err, syscall.ENOSPC, syscall.EDQUOT):
		return "free space on this machine, or name another directory for temporary files with TMPDIR"
	case errors.Is(err, oci.ErrUnavailable):
		return unavailableHint(err)
	}
	return ""
}

// unavailableHint tells a registry that answered badly from one that was not
// reached.
func unavailableHint(err error) string {
	if r, ok := errors.AsType[*oci.ResponseError](err); ok {
		return answerHint(r)
	}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.As(err, &authority):
		return "name the CA that signed the registry's certificate with --ca-file"
	case errors.As(err, &name), errors.As(err, &invalid):
		return "the registry's certificate is not good for this host or this time; check the host name and the clock"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "for a registry without TLS add --plain-http"
	case isAny(err, syscall.ECONNREFUSED):
		return "nothing listens there; check the port, and that the registry runs"
	case hasType[*net.DNSError](err):
		return "check the host name"
	case isNet && timeout.Timeout():
		return "nothing answered in time; check the host name, the network and the proxy"
	}
	return "check the host name, the port and the network; for a registry without TLS add --plain-http, for a private CA --ca-file"
}

// answerHint is for a registry that was reached and failed.
func answerHint(r *oci.ResponseError) string {
	text := strings.ToLower(r.Message)
	switch {
	case strings.Contains(text, "no space left"), strings.Contains(text, "quota exceeded"), r.Status == http.StatusInsufficientStorage:
		return "the registry's disk is full; free space there, in okara's own with `okara state prune` and `okara gc`"
	case strings.Contains(text, "read-only file system"):
		return "the registry cannot write to its disk; mount it for writing"
	case r.Status == http.StatusNotFound:
		return "the host answers and is no OCI registry; check the host name, the port and the path"
	case r.Status == http.StatusBadGateway, r.Status == http.StatusServiceUnavailable, r.Status == http.StatusGatewayTimeout:
		return "the registry, or the proxy before it, is down or overloaded; repeat the command later"
	}
	return "the registry failed; its log says why"
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
