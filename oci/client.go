// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"oras.land/oras-go/v2/registry"

	"github.com/seed-141914ff/okara/internal/text"
)

// Credential proves an identity to a registry. The zero value means anonymous access.
type Credential struct {
	Username, Password string
	IdentityToken      string // an OAuth2 refresh token, exchanged for access tokens
	RegistryToken      string // an access token, sent unchanged
}

// CredentialFunc finds the credential for a repository. It is called when a registry asks for one
// and again when that is refused, so it should cache, and return a new one for one that expires.
type CredentialFunc func(ctx context.Context, host, repository string) (Credential, error)

// Options configures a [Client]. The zero value means anonymous access over https.
type Options struct {
	// Credential finds credentials; nil is anonymous.
	Credential CredentialFunc
	// Rejected is called with a credential that the registry or its token server refused, so that a
	// cached one can be dropped. unknown: the registry does not know it; else its owner lacks the
	// right. Credential is then called again, and the request is repeated a few times at most while
	// it returns new ones. Nil: nothing is dropped, but a changed answer is still used.
	Rejected func(host, repository string, c Credential, unknown bool)
	// Transport sends the requests; nil: [http.DefaultTransport]. Retries and redirects are added.
	Transport http.RoundTripper
	// Asked returns where Transport sends a request for a URL, for errors; nil: to the URL.
	Asked func(*url.URL) *url.URL
	// PlainHTTP restricts the client to http. Otherwise only a loopback host, probed, may use it.
	PlainHTTP bool
	// Probes is shared by clients for the same hosts; nil: the client probes alone.
	Probes *Probes
	// UserAgent is sent with each request, "okara/<version>".
	UserAgent string
	// Actions are requested in every token beside those that a request needs. A caller that will
	// write sets "pull", "push" and saves a token exchange. Most registries grant the subset that
	// the user may have; if one refuses, they are left out.
	Actions []string
	// SinglePost states that the registry accepts a whole blob with the POST that otherwise opens
	// an upload (OCI distribution specification 1.1, "Single POST"), which is used up to 1 MiB. If
	// false, the first blob of at most 64 KiB shows it.
	SinglePost bool
	// TagParts gives each manifest of [Repo.PutPart] a tag, because the registry removes untagged
	// ones, also those in an index. Always set for ghcr.io, where a popular action does so.
	TagParts bool
	// Logger gets one debug record per request, without secrets; nil: none.
	Logger *slog.Logger
	// Warned is called once for each text that the registry sends as a warning (OCI distribution
	// specification 1.1, "Warnings"); nil: they are dropped.
	Warned func(text string)
	// Retry configures the repetition of repeatable requests.
	Retry Retry
}

// Retry bounds the repetition of requests. Its zero value means the defaults given with each field.
type Retry struct {
	MaxAttempts    int           // 5; 1 means no repetition
	InitialBackoff time.Duration // 500 ms, doubled each time, with jitter
	MaxBackoff     time.Duration // 30 s; if a registry asks to wait longer, the request fails
}

func (r Retry) withDefaults() Retry {
	if r.MaxAttempts <= 0 {
		r.MaxAttempts = 5
	}
	if r.InitialBackoff <= 0 {
		r.InitialBackoff = 500 * time.Millisecond
	}
	if r.MaxBackoff <= 0 {
		r.MaxBackoff = 30 * time.Second
	}
	return r
}

// Client is one identity at a registry, below one prefix. It is safe for concurrent use.
type Client struct {
	host      string // as the user wrote it, for credentials and messages
	prefix    string
	o         Options
	transport *transport
	scheme    *schemeProbe
	single    singlePost
	caller    atomic.Pointer[string]

	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// New returns a client for "host[:port][/prefix]". It sends no request.
func New(prefix string, o Options) (*Client, error) {
	host, path, _ := strings.Cut(prefix, "/")
	if err := checkHost(prefix, host); err != nil {
		return nil, err
	}
	if strings.Contains(prefix, "/") && !isName(path) {
		return nil, fmt.Errorf("parse registry %q: %q is not a repository path: %s", prefix, path, nameRule)
	}
	o.Retry = o.Retry.withDefaults()
	o.TagParts = o.TagParts || host == "ghcr.io"
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Asked == nil {
		o.Asked = func(u *url.URL) *url.URL { return u }
	}
	c := &Client{
		host: host, prefix: path, o: o,
		transport: newTransport(o),
		scheme:    newSchemeProbe(apiHost(host), o),
		sessions:  map[string]*session{},
	}
	if o.SinglePost {
		c.single.state.Store(singleTaken)
	}
	return c, nil
}

// OpenRepo returns the repository "host[:port]/path", without tag or digest. It sends no request.
func OpenRepo(reference string, o Options) (*Repo, error) {
	host, name, ok := strings.Cut(reference, "/")
	if err := checkHost(reference, host); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("parse repository %q: no path after the host, expected host[:port]/path", reference)
	}
	c, err := New(host, o)
	if err != nil {
		return nil, err
	}
	r, err := c.Repo(name)
	if err != nil {
		return nil, fmt.Errorf("parse repository %q: %w", reference, err)
	}
	return r, nil
}

// Host returns the registry as given to [New], without the prefix.
func (c *Client) Host() string { return c.host }

// Repo returns the repository with this name below the client's prefix. It sends no request.
func (c *Client) Repo(name string) (*Repo, error) {
	full := name
	if c.prefix != "" {
		full = c.prefix + "/" + name
	}
	if !isName(name) {
		if tag := strings.LastIndexAny(name, ":@"); tag > 0 {
			return nil, fmt.Errorf("repository name %q: remove %q, no tag or digest belongs here", name, name[tag:])
		}
		return nil, fmt.Errorf("repository name %q: %s", name, nameRule)
	}
	if len(full) > maxName {
		return nil, fmt.Errorf("repository name %q: longer than %d characters", full, maxName)
	}
	return &Repo{conn{c: c, name: full, s: c.session(full)}}, nil
}

const (
	nameRule = "use lower-case letters and digits, joined by single '.', '_' or '-', parts separated by '/'"
	// maxName is the limit of most registries; the specification sets none for the name alone.
	maxName = 255
	// maxSessions bounds the token caches that one client keeps.
	maxSessions = 4096
)

func isName(s string) bool { return registry.Reference{Repository: s}.ValidateRepository() == nil }

func isTag(s string) bool { return registry.Reference{Reference: s}.ValidateReferenceAsTag() == nil }

var hostRE = text.Pattern(`^([a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

func checkHost(whole, host string) error {
	switch {
	case whole == "":
		return errors.New("no registry given, expected host[:port][/prefix]")
	case strings.Contains(whole, "://"):
		return fmt.Errorf("parse registry %q: remove the scheme, expected host[:port][/prefix]", cutUserinfo(whole))
	case strings.Contains(host, "@"):
		return fmt.Errorf("parse registry %q: credentials do not belong in the address", cutUserinfo(whole))
	case !hostRE().MatchString(host):
		return fmt.Errorf("parse registry %q: %q is not host[:port]", whole, host)
	}
	return nil
}

var leadingUserinfo = text.Pattern(`^([^/@]*://)?[^/]*@`)

// cutUserinfo removes "user:password@" from text that goes into a message.
func cutUserinfo(s string) string { return leadingUserinfo().ReplaceAllString(s, "${1}***@") }

// apiHost returns the host of a registry's API, for Docker Hub not the one that users write.
func apiHost(host string) string {
	switch host {
	case "docker.io", "index.docker.io":
		return "registry-1.docker.io"
	}
	return host
}

// session returns the state kept for one repository, such as its tokens.
func (c *Client) session(name string) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.sessions[name]; ok {
		return s
	}
	if len(c.sessions) >= maxSessions {
		clear(c.sessions) // Repos in use keep their session; others request a token again
	}
	s := newSession(c, name)
	c.sessions[name] = s
	return s
}
