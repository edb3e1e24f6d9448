// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/oci"
)

// TestHints: a user whose disk is full must not be told to check host names.
//
// Shows: mistakes 26 | the hint for a full disk was "check the host name" | hints match the cause
func TestHints(t *testing.T) {
	const network = "check the host name, the port and the network"
	answer := func(status int, message string) error {
		return fmt.Errorf("push: %w: %w", oci.ErrUnavailable, &oci.ResponseError{Status: status, Message: message})
	}
	cause := func(err error) error { return fmt.Errorf("push: %w: %w", oci.ErrUnavailable, err) }
	server := func(err error) error { return &client.UnreachableError{Method: "GET", Err: err} }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"disk full there", answer(500, `unknown error "no space left on device"`), "the registry's disk is full"},
		{"quota there", answer(500, "disk quota exceeded"), "the registry's disk is full"},
		{"507", answer(507, ""), "the registry's disk is full"},
		{"read-only there", answer(500, "read-only file system"), "disk is read-only"},
		{"500", answer(500, "unknown error"), "its log shows why"},
		{"503", answer(503, ""), "down or overloaded"},
		{"HTML 404", answer(404, "returned HTML"), "is not an OCI registry"},
		{"disk full here", fmt.Errorf("download: %w", &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), "free disk space"},
		{"rate limit", fmt.Errorf("pull: %w", oci.ErrRateLimited), "wait"},
		{"refused", cause(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), "nothing is listening there"},
		{"unknown host", cause(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), "check the host name"},
		{"repository for a host", cause(&net.DNSError{Name: "x"}), "starts with its registry"},
		{"unknown server", server(&net.DNSError{Name: "x"}), "check the server's name"},
		{"no server there", server(io.ErrUnexpectedEOF), "check the server, its port"},
		{"time-out", cause(os.ErrDeadlineExceeded), "timed out"},
		{"private CA", cause(x509.UnknownAuthorityError{}), "--ca-file"},
		{"wrong certificate", cause(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}), "certificate"},
		{"no TLS", cause(http.ErrSchemeMismatch), "--plain-http"},
		{"anything else", cause(io.ErrUnexpectedEOF), network},
	} {
		got := (&App{}).classHint(c.err)
		if !strings.Contains(got, c.want) || c.want != network && strings.Contains(got, network) {
			t.Errorf("%s: hint %q, want %q", c.name, got, c.want)
		}
	}
	a := &App{used: func() usedCredential { return usedCredential{name: "a bad one, and the token", chosen: "the token"} }}
	for text, want := range map[string]string{
		"denied": "what the account may do", `locking workspace "a": 403: "it lacks the right read:state:app"`: "ask for the right write:state:app;", `403: "it lacks the right read:state:app"`: "right read:state:app;",
	} {
		if got := a.classHint(fmt.Errorf("%s: %w", text, oci.ErrDenied)); !strings.Contains(got, want) || !strings.HasPrefix(got, "the token is valid") {
			t.Errorf("%s: hint %q, want %q", text, got, want)
		}
	}
	withheld := &oci.ResponseError{Method: "GET", Status: http.StatusPreconditionFailed}
	if got := (&App{}).refusedHint(withheld); !strings.Contains(got, "exempt this project") {
		t.Errorf("content trust: hint %q", got)
	}
}

// Shows: mistakes 26
func TestHintOfFullRegistry(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNKNOWN","message":"unknown error","detail":"no space left on device"}]}`)
	}))
	defer s.Close()
	r, err := oci.OpenRepo(strings.TrimPrefix(s.URL, "http://")+"/state/shop", oci.Options{Retry: oci.Retry{MaxAttempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resolve(t.Context(), "state-default")
	if got := (&App{}).classHint(err); !strings.Contains(got, "failed") { // the answer to a HEAD has no body
		t.Errorf("%v: hint %q", err, got)
	}
	_, err = r.Fetch(t.Context(), "state-default")
	if got := (&App{}).classHint(err); !strings.Contains(got, "disk is full") {
		t.Errorf("%v: hint %q", err, got)
	}
}
