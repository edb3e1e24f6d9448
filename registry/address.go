// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
)

// parser parses a path into its object and the right for it, without which the error is not shown.
type parser[A any] func(r *http.Request) (at A, right rights.Right, err error)

func moduleIn(r *http.Request) (addr.Module, rights.Right, error) {
	m := writtenIn(r).Fold()
	return m, rights.Right{Kind: addr.KindModule, Address: m.String()}, m.Validate()
}

// writtenIn returns the module in a path in the case in which it is written there.
func writtenIn(r *http.Request) addr.Module {
	return addr.Module{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), System: r.PathValue("system")}
}

func moduleVersionIn(r *http.Request) (addr.ModuleVersion, rights.Right, error) {
	m, right, err := moduleIn(r)
	if err != nil {
		return addr.ModuleVersion{}, right, err
	}
	v, err := addr.ParseVersion(r.PathValue("version"))
	return addr.ModuleVersion{Module: m, Version: v}, right, err
}

// group is the modules that share part of their address. An empty field matches everything.
type group struct{ namespace, name string }

func (g group) String() string { return strings.Trim(g.namespace+"/"+g.name, "/") }

func groupIn(r *http.Request) (group, rights.Right, error) {
	g := group{strings.ToLower(r.PathValue("namespace")), strings.ToLower(r.PathValue("name"))}
	return g, rights.Right{Kind: addr.KindModule, Address: g.String()}, nil
}

// stored is a version of a module or of a provider of this front-end.
type stored struct {
	addr.Item
	version addr.Version
}

func storedModuleIn(r *http.Request) (stored, rights.Right, error) {
	m, right, err := moduleVersionIn(r)
	return stored{m.Item(), m.Version}, right, err
}

// hostname is the front-end's in addresses of its own providers; "": the one that the client used.
type hostname string

func (h hostname) isOwn(r *http.Request, p addr.Provider) bool {
	if h != "" {
		return p.Hostname == string(h)
	}
	return p.Hostname == strings.ToLower(r.Host)
}

// parseProvider parses an own provider's address or, below /origin/ and /mirror/, a mirrored one's.
func (h hostname) parseProvider(r *http.Request) (addr.Provider, rights.Right, error) {
	source := r.PathValue("namespace") + "/" + r.PathValue("type")
	right := rights.Right{Kind: addr.KindProvider}
	if host := r.PathValue("hostname"); host != "" {
		source = host + "/" + source
		right.Kind = addr.KindMirror
	}
	p, err := addr.ParseProvider(source)
	if err != nil {
		right.Address = source
		return p, right, err
	}
	if right.Kind == addr.KindMirror && h.isOwn(r, p) {
		right.Kind = addr.KindProvider
		p.Hostname = ""
	}
	right.Address = p.String() // in lower case, as stored
	return p, right, nil
}

type providerVersion struct {
	addr.Provider
	version addr.Version
}

func (h hostname) release(r *http.Request) (providerVersion, rights.Right, error) {
	return h.releaseOf(r, r.PathValue("version"))
}

// parseDocument is release for the document of a network mirror.
func (h hostname) parseDocument(r *http.Request) (providerVersion, rights.Right, error) {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	at, right, err := h.releaseOf(r, name)
	if !ok {
		err = errors.New("a network mirror has index.json and VERSION.json here")
	}
	return at, right, err
}

func (h hostname) releaseOf(r *http.Request, version string) (providerVersion, rights.Right, error) {
	p, right, err := h.parseProvider(r)
	if err != nil {
		return providerVersion{}, right, err
	}
	v, err := addr.ParseVersion(version)
	return providerVersion{p, v}, right, err
}

func (h hostname) parseStored(r *http.Request) (stored, rights.Right, error) {
	p, right, err := h.release(r)
	return stored{p.Item(), p.version}, right, err
}

type build struct {
	providerVersion
	platform addr.Platform
}

func (h hostname) parseBuild(r *http.Request) (build, rights.Right, error) {
	at, right, err := h.release(r)
	return build{at, addr.Platform{OS: r.PathValue("os"), Arch: r.PathValue("arch")}}, right, err
}

const signLink = "okara-archive-v1"

// publicToken replaces the signature if anonymous callers may read, authToken if a token is sent.
const (
	publicToken = "public"
	authToken   = "auth"
)

// links creates and verifies paths of archives: one blob of a repository as one file, for a time.
type links struct {
	keys   *keyring.Ring
	ttl    time.Duration
	now    func() time.Time
	sealed string // the caller's credential, included in every link; "" without pass-through

	public, publicHost string                     // the URL of the server for clients, with a trailing slash, and its host; "": not configured
	base               string                     // the path below which a proxy serves the server, without a trailing slash
	reached            func(*http.Request) string // see [Options.Reached]; nil: unknown
	host               func(*http.Request) string // by which the client reached the server
}

func (o Options) newLinks(ttl time.Duration) *links {
	l := &links{keys: o.Keys, ttl: ttl, now: o.Now, base: strings.TrimSuffix(o.BasePath, "/"), reached: o.Reached, host: o.Kit.Guard.Host}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		l.public = strings.TrimSuffix(o.PublicURL, "/") + "/"
		l.publicHost = u.Host
	}
	return l
}

type blobName struct {
	Repository string
	Hex        string // SHA-256 of the blob
	File       string
}

func (b blobName) cacheKey() cache.Blob { return cache.Blob{Repository: b.Repository, Hex: b.Hex} }

// linkExpiry returns when a link made now expires, in Unix seconds: after the lifetime, rounded up
// to a quarter of it, so that answers stay byte-for-byte equal for that long. A new set of keys
// shifts it by seconds, so that no answer with links of an old key is reused.
func (l *links) linkExpiry() int64 {
	quarter := max(int64(l.ttl/time.Second)/4, 1)
	end := l.now().Add(l.ttl).Unix()
	return (end+quarter-1)/quarter*quarter + l.keys.Set()%quarter
}

// signedPath returns the relative path of a link that expires at exp.
func (l *links) signedPath(b blobName, exp int64) string {
	id, signature := l.keys.Sign(signLink, signedLines(exp, b, l.sealed)...)
	token := id + "." + strconv.FormatInt(exp, 10) + "." + signature
	if l.sealed != "" {
		token += "." + l.sealed
	}
	return linkPath(token, b)
}

func linkPath(token string, b blobName) string {
	return "archives/" + token + "/" + b.Repository + "/" + b.Hex + "/" + b.File
}

// signedLines returns what the signature of a link covers; sealed is the credential in the link.
func signedLines(exp int64, b blobName, sealed string) []string {
	return []string{strconv.FormatInt(exp, 10), b.Repository, b.Hex, b.File, sealed}
}

// cutSealed splits the token of a link after its signature.
func cutSealed(token string) (signed, sealed string) {
	end := 0
	for range 3 {
		i := strings.IndexByte(token[end:], '.')
		if i < 0 {
			return token, ""
		}
		end += i + 1
	}
	return token[:end-1], token[end:]
}

func forgedError() error {
	return &service.Error{Status: http.StatusForbidden, Text: "this archive link is not valid; run init again for a new one"}
}

// verify returns when a link expires. The signature comes first: only a valid one can have expired.
func (l *links) verify(token string, b blobName) (time.Time, error) {
	signed, sealed := cutSealed(token)
	part := strings.Split(signed, ".")
	if len(part) != 3 {
		return time.Time{}, forgedError()
	}
	exp, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil || strconv.FormatInt(exp, 10) != part[1] {
		return time.Time{}, forgedError()
	}
	if !l.keys.Verify(signLink, part[0], part[2], signedLines(exp, b, sealed)...) {
		return time.Time{}, forgedError()
	}
	end := time.Unix(exp, 0)
	if !l.now().Before(end) {
		return time.Time{}, &service.Error{Status: http.StatusGone, Text: "this archive link has expired; run init again"}
	}
	return end, nil
}
