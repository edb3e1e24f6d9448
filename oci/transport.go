// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/text"
)

// transport is the only place where requests are repeated: reads, the opening of an upload and
// writes by digest. The PUT or DELETE of a tag reaches the registry once, since another writer may
// have changed the tag between two attempts; 429 says that it did not (RFC 6585, section 4). If its
// answer is lost the error is [ErrUncertain].
type transport struct {
	base     http.RoundTripper
	retry    Retry
	logger   *slog.Logger
	answered atomic.Bool // some request got an answer, so the address is right
	recent   recentPushes
	warnings warnings
}

// warnings passes on what registries warn about, each text once.
type warnings struct {
	to func(text string) // nil: nowhere

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// maxWarnings bounds the texts of one process.
const maxWarnings = 20

// take reads the header Warning: code 299, no agent, and a quoted text.
func (w *warnings) take(h http.Header) {
	for _, value := range h.Values("Warning") {
		quoted, ok := strings.CutPrefix(value, "299 - ")
		warning, err := strconv.Unquote(strings.TrimSpace(quoted))
		if w.to == nil || !ok || err != nil {
			continue
		}
		w.mu.Lock()
		fresh := !w.seen[warning] && len(w.seen) < maxWarnings
		if fresh {
			if w.seen == nil {
				w.seen = map[string]bool{}
			}
			w.seen[warning] = true
		}
		w.mu.Unlock()
		if fresh {
			w.to(text.Excerpt(warning))
		}
	}
}

func newTransport(o Options) *transport {
	l := o.Logger
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &transport{base: o.Transport, retry: o.Retry, logger: l, warnings: warnings{to: o.Warned}}
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, sent, err := t.sendAttempt(req, attempt)
		wait, again := t.shouldRetry(req, resp, err, attempt)
		if again {
			again = waitFits(req.Context(), wait)
		}
		if !again {
			return t.finish(req, resp, sent, err)
		}
		if resp != nil {
			// Reading a short rest lets the connection be reused.
			_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
			resp.Body.Close()
		}
		if cerr := text.Wait(req.Context(), wait); cerr != nil {
			if err == nil {
				err = fmt.Errorf("last response %s", resp.Status)
			}
			return nil, fmt.Errorf("%w while waiting to retry: %w", cerr, err)
		}
	}
}

// sendAttempt sends the request once. sent is false if no part of it can have been sent.
func (t *transport) sendAttempt(req *http.Request, attempt int) (resp *http.Response, sent bool, err error) {
	var connected atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	r := req.Clone(ctx)
	if attempt > 1 && req.GetBody != nil {
		if r.Body, err = req.GetBody(); err != nil {
			return nil, false, fmt.Errorf("reopen the body: %w", err)
		}
	}
	start := time.Now()
	resp, err = t.base.RoundTrip(r)
	t.logAttempt(req, resp, err, attempt, time.Since(start))
	if err == nil {
		t.answered.Store(true)
		t.warnings.take(resp.Header)
		resp.Request = req
		if x, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
			x.admitInside(resp)
		}
	}
	return resp, connected.Load() || !failedToConnect(err), err
}

// failedToConnect reports whether err is from before any part of a request can have been sent.
func failedToConnect(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "dial" || op.Op == "proxyconnect"
	}
	return isCertificateError(err) || isFileError(err)
}

// isFileError reports whether err is about a local certificate or key that cannot be read.
func isFileError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

func (t *transport) finish(req *http.Request, resp *http.Response, sent bool, err error) (*http.Response, error) {
	if err != nil && sent && changesTag(req) {
		return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return resp, err
}

// logAttempt writes one record, without query and headers, which contain tokens.
func (t *transport) logAttempt(req *http.Request, resp *http.Response, err error, attempt int, took time.Duration) {
	ctx := req.Context()
	if !t.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", req.Method), slog.String("url", safeURL(req.URL)),
		slog.Int("attempt", attempt), slog.Duration("took", took),
	}
	if err != nil {
		var s secrets
		attrs = append(attrs, slog.String("error", s.redact(err.Error())))
	} else {
		attrs = append(attrs, slog.Int("status", resp.StatusCode))
	}
	t.logger.LogAttrs(ctx, slog.LevelDebug, "registry request", attrs...)
}

func (t *transport) shouldRetry(req *http.Request, resp *http.Response, err error, attempt int) (time.Duration, bool) {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return 0, false
	}
	pause := backoff(t.retry.InitialBackoff, t.retry.MaxBackoff, attempt)
	if err != nil {
		return pause, attempt < t.retry.MaxAttempts && isRepeatable(req) && t.isTransient(req.Context(), err)
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		read := req.Method == http.MethodGet || req.Method == http.MethodHead
		return backoff(freshBackoff, t.retry.MaxBackoff, attempt), read && attempt <= freshRepeats && t.recent.wasPushed(req.URL)
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		asked := retryAfter(resp, time.Now())
		harmless := isRepeatable(req) || resp.StatusCode == http.StatusTooManyRequests && changesTag(req)
		return max(pause, asked), attempt < t.retry.MaxAttempts && harmless && asked <= t.retry.MaxBackoff
	}
	return 0, false
}

// isTransient distinguishes errors that may pass from final ones. A refused connection or an
// unknown host name is final until the host has answered: the address is probably wrong.
func (t *transport) isTransient(ctx context.Context, err error) bool {
	final := isCertificateError(err) || isFileError(err) || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, ErrUnsupported)
	if ctx.Err() != nil || final {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && !op.Timeout() {
		return t.answered.Load()
	}
	return true
}

func isCertificateError(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// isRepeatable reports whether a second request has no effect. A surplus POST does no harm.
func isRepeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		return true
	case http.MethodPut:
		_, ok := manifestRef(req.URL)
		return ok && !changesTag(req)
	}
	return false
}

// changesTag reports whether to send a request at most once. The tag of a part does not change.
func changesTag(req *http.Request) bool {
	ref, ok := manifestRef(req.URL)
	return ok && (req.Method == http.MethodDelete || req.Method == http.MethodPut && !isDigest(ref) && !strings.HasPrefix(ref, PartPrefix))
}

// manifestRef returns the tag or digest in /v2/<name>/manifests/<reference>.
func manifestRef(u *url.URL) (string, bool) {
	rest, ok := strings.CutPrefix(u.Path, "/v2/")
	if !ok {
		return "", false
	}
	i := strings.LastIndex(rest, "/manifests/")
	if i < 0 {
		return "", false
	}
	return rest[i+len("/manifests/"):], true
}

func isDigest(ref string) bool { return strings.Contains(ref, ":") }

// backoff doubles the pause from first up to limit, with jitter in its upper half.
func backoff(first, limit time.Duration, attempt int) time.Duration {
	d := first
	for range attempt - 1 {
		if d *= 2; d >= limit {
			d = limit
			break
		}
	}
	return d/2 + rand.N(d/2+1)
}

// waitFits is false if the deadline would pass: the current answer is more useful than that error.
func waitFits(ctx context.Context, d time.Duration) bool {
	end, ok := ctx.Deadline()
	return !ok || time.Until(end) > d
}

const (
	// freshFor is how long after its push a digest may answer 404, as at GHCR for some seconds.
	freshFor     = time.Minute
	freshRepeats = 5
	freshBackoff = 100 * time.Millisecond
	maxRecent    = 4096
)

// recentPushes remembers what this client pushed within the last minute.
type recentPushes struct {
	mu   sync.Mutex // guards when
	when map[string]time.Time
}

func recentKey(name string, d digest.Digest) string { return name + "@" + string(d) }

func (p *recentPushes) addPush(name string, d digest.Digest) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.when == nil || len(p.when) >= maxRecent {
		p.when = map[string]time.Time{}
	}
	p.when[recentKey(name, d)] = now
}

func (p *recentPushes) forgetPush(name string, d digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.when, recentKey(name, d))
}

func (p *recentPushes) wasPushed(u *url.URL) bool {
	for _, kind := range []string{"/manifests/", "/blobs/"} {
		name, ref, ok := strings.Cut(strings.TrimPrefix(u.Path, "/v2/"), kind)
		if !ok || !isDigest(ref) {
			continue
		}
		p.mu.Lock()
		t, ok := p.when[recentKey(name, digest.Digest(ref))]
		p.mu.Unlock()
		if ok && time.Since(t) < freshFor {
			return true
		}
	}
	return false
}

// Probes remembers for several clients which scheme a loopback host speaks.
type Probes struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: a [net.Dialer]

	known sync.Map // HOST:PORT to scheme, of those that answered
}

// schemeProbe decides between https and http, for the client's lifetime. Only a loopback host is
// probed, with a TLS handshake on a separate connection, so that no request is sent twice.
type schemeProbe struct {
	shared *Probes
	mu     sync.Mutex // guards scheme
	scheme string     // empty: not yet known
	addr   string     // host:port to probe
}

// probeTimeout bounds the handshake; a server that waits for the end of a line uses plain http.
const probeTimeout = 3 * time.Second

func newSchemeProbe(host string, o Options) *schemeProbe {
	switch {
	case o.PlainHTTP:
		return &schemeProbe{scheme: "http"}
	case !netaddr.IsLoopback(host):
		return &schemeProbe{scheme: "https"}
	}
	addr := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		addr = net.JoinHostPort(strings.Trim(host, "[]"), "443")
	}
	return &schemeProbe{shared: cmp.Or(o.Probes, &Probes{}), addr: addr}
}

func (p *schemeProbe) probeScheme(ctx context.Context) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scheme != "" {
		return p.scheme
	}
	if known, ok := p.shared.known.Load(p.addr); ok {
		p.scheme = known.(string)
		return p.scheme
	}
	dial := p.shared.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: probeTimeout}).DialContext
	}
	conn, err := dial(ctx, "tcp", p.addr)
	if err != nil {
		// Not kept: the request will fail with the reason, over loopback's usual scheme.
		return "http"
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	// Only the handshake is sent here, so a wrong certificate does no harm.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // see above
	if _, alert := errors.AsType[tls.AlertError](err); err == nil || alert {
		p.scheme = "https"
	} else {
		p.scheme = "http"
	}
	p.shared.known.Store(p.addr, p.scheme)
	return p.scheme
}
