// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// classHint returns a hint for most errors of a class. It depends on the cause: advice
// about the network is only for errors without an answer.
func (a *App) classHint(err error) string {
	if because, ok := errors.AsType[*becauseError](err); ok {
		err = because.cause
	}
	switch {
	case hasType[*upstream.InsideError](err):
		return "if this is intended, allow it with --allow-internal HOST[:PORT]"
	case errors.Is(err, oci.ErrUnauthenticated), errors.Is(err, oci.ErrDenied):
		return a.refusedHint(err)
	case errors.Is(err, oci.ErrRateLimited):
		return "wait and retry; many registries have higher limits for authenticated users (`okara login HOST`)"
	case isAny(err, syscall.ENOSPC, syscall.EDQUOT):
		return "free disk space, or set TMPDIR to another directory for temporary files"
	}
	if hint, ok := wrongScheme(err); ok {
		return hint
	}
	if errors.Is(err, oci.ErrUnavailable) {
		return unavailableHint(err)
	}
	if hint := fileHint(err); hint != "" {
		return hint
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program is using this port: stop it, or set another port with --listen; --listen 127.0.0.1:0 picks a free one"
	case errors.Is(err, envelope.ErrKey):
		return "set a key that it was encrypted with: " + states.KeyOptions + "; `okara state keys` shows the keys of every version"
	case errors.Is(err, statebackend.ErrNotState):
		return "expected a state file as printed by `tofu state pull` or `okara state pull`"
	case hasType[*depot.UnpublishedError](err):
		return "`okara list` shows what is published; a module has three parts, NAMESPACE/NAME/SYSTEM, a provider two"
	case strings.Contains(err.Error(), "signed by an unknown key"):
		return "name the key that you trust with --openpgp-key FILE, of a cosign signature with --cosign-key FILE"
	case errors.Is(err, scan.ErrMissing):
		return "install Trivy from https://trivy.dev, or specify another scanner with --scanner"
	case errors.Is(err, client.ErrNoServer):
		return "check the address: the URL of okara serve has no path of a page, and no sign-in page of a proxy before it"
	case errors.Is(err, bundle.ErrNone):
		return "`okara bundle create` writes a bundle"
	case errors.Is(err, oci.ErrNotFound) && strings.Contains(err.Error(), "version"):
		return "`okara list ADDRESS` shows the versions"
	case errors.Is(err, oci.ErrNotFound):
		return "`okara list` shows modules and providers, `okara list ADDRESS` the versions of one, `okara state list REPOSITORY` states"
	}
	return ""
}

// fileHint returns hints for local files, including keys.
func fileHint(err error) string {
	if open, ok := errors.AsType[*files.ModeError](err); ok {
		return "chmod 600 " + open.Name
	}
	if dir, ok := files.NoTemporary(err); ok {
		return fmt.Sprintf("cannot create temporary files in %s; set TMPDIR to another directory", dir)
	}
	switch {
	case errors.Is(err, signing.ErrPublic):
		return "use the private key; the public key, with .pub in its name, is for verifying"
	case errors.Is(err, signing.ErrPrivate):
		return "use the public key, with .pub in its name; the private key stays with the signer"
	case errors.Is(err, signing.ErrPassphrase):
		return "set the passphrase with OKARA_KEY_PASSPHRASE or --passphrase-file"
	case errors.Is(err, bundle.ErrCut):
		return "copy the file again, and compare its size or checksum with the original"
	}
	return ""
}

// refusedHint names the credential that was refused and where it is stored, never its
// secret.
func (a *App) refusedHint(err error) string {
	if oci.WithheldByPolicy(err) {
		return "the registry requires a signature, or no known vulnerability, before it serves content; exempt this project from that rule, or sign with a client that the registry exempts"
	}
	var used usedCredential
	if a.used != nil {
		used = a.used()
	}
	if r, ok := errors.AsType[*oci.ResponseError](err); ok && used.target.host == "" {
		if u, err := url.Parse(r.URL); err == nil { // it refused without asking for a credential
			used.target.host = u.Host
		}
	}
	host := cmp.Or(used.target.host, "HOST")
	reference := cmp.Or(used.target.String(), "REFERENCE")
	explain := fmt.Sprintf("; `okara auth explain %s` shows which credentials are used", reference)
	if a.Getenv != nil && a.Getenv("OKARA_TOKEN") != "" && !used.given {
		explain += "; OKARA_TOKEN is sent only to the server of OKARA_SERVER or --server"
	}
	switch {
	case used.name == "":
		return fmt.Sprintf("no credentials were sent to %s; log in with `okara login %s`", host, host) + explain
	case errors.Is(err, oci.ErrDenied) && LackedRight(err) != "":
		return cmp.Or(used.chosen, used.name) + " is valid; ask for the right " + LackedRight(err) + explain
	case errors.Is(err, oci.ErrDenied):
		return cmp.Or(used.chosen, used.name) + " is valid, but lacks permission; check that the project exists, and what the account may do in it" + explain
	}
	was := " was refused"
	if used.several {
		was = " were refused"
	}
	if used.given {
		return used.name + was + "; explicit credentials are never replaced by others; correct them" + explain
	}
	return fmt.Sprintf("%s%s; log in with `okara login %s`", used.name, was, host) + explain
}

// LackedRight returns the right that okara serve found missing; "": it did not refuse. A lock
// begins with a request that reads, and needs the right to write.
func LackedRight(err error) string {
	_, right, _ := strings.Cut(err.Error(), rights.Lacks)
	right, _, _ = strings.Cut(right, `"`)
	right, _, _ = strings.Cut(right, " ")
	if name, reads := strings.CutPrefix(right, "read:state:"); reads && strings.Contains(err.Error(), "locking workspace") {
		return "write:state:" + name
	}
	return right
}

// wrongScheme recognizes http where https is spoken, and the reverse, which only the text
// of the server's answer shows.
func wrongScheme(err error) (hint string, ok bool) {
	text := err.Error()
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it speaks http: write http:// before the server's name; for a registry add --plain-http", true
	case strings.Contains(text, "HTTP request to an HTTPS server"), strings.Contains(text, "HTTP request was sent to HTTPS port"):
		return "it speaks https: write https:// before the server's name; for a registry omit --plain-http", true
	}
	return "", false
}

// unavailableHint distinguishes a registry or front-end that answered with an error from
// one that was not reached.
func unavailableHint(err error) string {
	if r, ok := errors.AsType[*oci.ResponseError](err); ok {
		return answerHint(r.Status, r.Message)
	}
	if r, ok := errors.AsType[*client.Error](err); ok {
		return answerHint(r.Status, r.Text)
	}
	var (
		authority x509.UnknownAuthorityError
		wrong     x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	name, isName := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	frontEnd := hasType[*client.UnreachableError](err)
	switch {
	case errors.As(err, &authority):
		return "set the CA that signed its certificate with --ca-file"
	case errors.As(err, &wrong), errors.As(err, &invalid):
		return "its certificate is not valid for this host or time; check the host name and the clock"
	case errors.As(err, &record) && !frontEnd:
		return "for a registry without TLS add --plain-http"
	case isAny(err, syscall.ECONNREFUSED):
		return "nothing is listening there; check the port, and that the server is running"
	case isName && frontEnd:
		return "check the server's name"
	case isName && !strings.Contains(name.Name, "."):
		return fmt.Sprintf("check the host name %q: a repository starts with its registry, such as registry.example.com/%s, or is below that of OKARA_REGISTRY; a folder starts with ./", name.Name, name.Name)
	case isName:
		return "check the host name"
	case isNet && timeout.Timeout():
		return "timed out; check the host name, the network and the proxy"
	}
	if frontEnd {
		return "check the server, its port and the network; for a private CA add --ca-file"
	}
	return "check the host name, the port and the network; for a registry without TLS add --plain-http, for a private CA --ca-file"
}

// answerHint returns a hint for a registry that was reached and failed.
func answerHint(status int, message string) string {
	text := strings.ToLower(message)
	switch {
	case (&oci.ResponseError{Status: status, Message: message}).DiskFull():
		return "the registry's disk is full; free space there, for okara's built-in registry with `okara state prune` and `okara admin gc`"
	case strings.Contains(text, "read-only file system"):
		return "the registry's disk is read-only; mount it read-write"
	case status == http.StatusNotFound:
		return "the host is not an OCI registry; check the host name, the port and the path"
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return "the registry, or a proxy in front of it, is down or overloaded; retry later"
	case message != "":
		return "the server itself failed; retry later; its log shows why"
	}
	return "the registry failed and gave no reason; its log shows why"
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
