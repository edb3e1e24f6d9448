// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/oci"
)

// ServerFlags name a front-end and the credentials for it.
type ServerFlags struct {
	URL, TokenFile, Audience string
	Both                     bool // the command compares the server with the registry of --registry
	Checks                   bool // the command only checks what it reads
}

// Add gives a command the flags.
func (s *ServerFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "server", "", "go through the okara server at this `URL` (OKARA_SERVER)")
	f.StringVar(&s.TokenFile, "token-file", "", "`FILE` with the token for --server, - for standard input (OKARA_TOKEN)")
	f.StringVar(&s.Audience, "audience", "", "audience `NAME` that the server expects in the token of a GitHub job; its URL by default")
}

// AddRequired is Add for a command that needs a server.
func (s *ServerFlags) AddRequired(f *pflag.FlagSet) {
	s.Add(f)
	f.Lookup("server").Usage = "the server at this `URL` (OKARA_SERVER)"
	f.Lookup("token-file").Usage = "`FILE` with the token for it, - for standard input (OKARA_TOKEN)"
}

// OpenServer is OpenFrontEnd for a command that needs a server.
func OpenServer(reg *Registries, s ServerFlags) (*client.Client, error) {
	s.Both = reg.Registry == "" // OKARA_REGISTRY is for other commands
	front, err := OpenFrontEnd(reg, s, nil)
	if err == nil && front == nil {
		err = WithHint(UsageError("no server given"), "set OKARA_SERVER, or add --server https://okara.example.com")
	}
	return front, err
}

// OpenFrontEnd returns the client of --server or OKARA_SERVER, nil without one. A registry
// on the command line takes precedence over OKARA_SERVER.
func OpenFrontEnd(reg *Registries, s ServerFlags, progress func(depot.Event)) (*client.Client, error) {
	switch {
	case s.URL != "" && reg.Registry != "" && !s.Both:
		return nil, UsageError("--server and --registry are mutually exclusive")
	case s.URL == "" && (reg.Registry == "" || s.Both):
		s.URL = reg.Getenv("OKARA_SERVER")
		if other := reg.Getenv("OKARA_REGISTRY"); s.URL != "" && other != "" && !s.Both {
			reg.Note("using the server of OKARA_SERVER, %s, not the registry of OKARA_REGISTRY; use --registry %s to access that one", s.URL, other)
		}
	}
	if s.URL == "" {
		if s.TokenFile != "" || s.Audience != "" {
			return nil, UsageError("--token-file and --audience require --server")
		}
		return nil, nil
	}
	if reg.DryRun {
		return nil, WithHint(UsageError("--dry-run cannot be combined with a server: only the server knows what it would change"), "specify the registry behind it with --registry HOST[/PREFIX]")
	}
	u, err := serverURL(reg, s.URL)
	if err != nil {
		return nil, err
	}
	t, err := reg.Transport()
	if err != nil {
		return nil, err
	}
	o := client.Options{Server: u, Transport: t, UserAgent: reg.UserAgent(), Checks: s.Checks, Logger: reg.Logger(), Progress: progress}
	o.Token, o.TokenFrom, err = serverToken(reg, s, o)
	return client.New(o), err
}

// serverURL parses an address to which a token may be sent.
func serverURL(reg *Registries, s string) (*url.URL, error) {
	u, err := netaddr.ParseServer(s)
	switch {
	case err != nil:
		return nil, UsageError("%w", err)
	case u.Scheme == "http" && !reg.plainHTTP && !netaddr.IsLoopback(u.Host):
		return nil, WithHint(UsageError("%s: a token is not sent without TLS", u), "use https://, or add --plain-http")
	}
	return u, nil
}

// serverToken finds the token for a front-end, and says where it came from.
func serverToken(reg *Registries, s ServerFlags, o client.Options) (_ client.TokenFunc, from string, err error) {
	token, err := ReadToken(reg.In, s.TokenFile)
	if err != nil {
		return nil, "", err
	}
	from = "--token-file " + s.TokenFile
	if s.TokenFile == "" {
		token = strings.TrimSpace(reg.Getenv("OKARA_TOKEN"))
		from = "OKARA_TOKEN"
	}
	if token == "" {
		token = reg.Credentials().ServiceToken(o.Server.Host)
		from = "the tofu and terraform credentials for " + o.Server.Host
	}
	if token == "" {
		from = ""
	}
	if !credentials.IsToken(token) {
		return nil, from, UsageError("the token for %s, from %s, has invalid characters", o.Server.Host, from)
	}
	endpoint := reg.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL")
	secret := reg.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if token != "" || endpoint == "" || secret == "" {
		return func(context.Context) (string, error) { return token, nil }, from, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && !netaddr.IsLoopback(u.Hostname()) {
		return nil, "", UsageError("ACTIONS_ID_TOKEN_REQUEST_URL is not an https URL")
	}
	audience := cmp.Or(s.Audience, strings.TrimSuffix(o.Server.String(), "/"))
	return client.GitHubToken(o, u, secret, audience), "this GitHub Actions job", nil
}

// ServerHint adds advice to refusals by a front-end.
func ServerHint(err error) error {
	refused := ""
	came := ""
	if e, ok := errors.AsType[*client.Error](err); ok && e.TokenFrom != "" {
		refused = "the token from " + e.TokenFrom + " was refused; "
		came = "; it came from " + e.TokenFrom
	}
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		return WithHint(err, "%s", refused+"give a token with --token-file FILE or OKARA_TOKEN; in GitHub Actions the job needs `permissions: id-token: write`, and the server an issuer block with this audience")
	case errors.Is(err, oci.ErrDenied):
		return WithHint(err, "the token is valid, but no scope or rule of the server allows this%s", came)
	case errors.Is(err, oci.ErrExists):
		return WithHint(err, "a published version never changes; publish under a new version")
	case errors.Is(err, oci.ErrNotFound):
		return WithHint(err, "check that the version exists, and that this is the address of `okara serve`")
	}
	return err
}
