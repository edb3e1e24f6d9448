// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// metadataTimeout is how long a metadata request may take: the clients give
	// up after 10 s, body included.
	metadataTimeout = 8 * time.Second
	// openTimeout is how long the registry may take to begin with a blob, all
	// attempts included; what follows has no limit. Otherwise a registry that
	// hangs would soon have every place for a download.
	openTimeout = 30 * time.Second
	// maxMetadata bounds the metadata requests that are being answered. Those
	// with a known answer take microseconds, so this many wait for a registry.
	maxMetadata = 4096
	// maxStreams bounds the downloads that run at once.
	maxStreams = 512
	// smallBody is what nearly every body of a metadata route is: a push of a
	// tag has some 10 KiB. It must be there within bodyTimeout, since nothing
	// is known of its sender until then.
	smallBody   = 64 << 10
	bodyTimeout = 2 * time.Second
	// maxHooks and maxLargeHooks bound the webhooks whose body is in memory.
	maxHooks, maxLargeHooks = 64, 8
	// maxPerHost bounds the requests to one registry that move no blob.
	// Downloads have their own bound, so that slow clients do not keep
	// metadata waiting.
	maxPerHost = 64
)

// limit refuses to begin an answer while too much is being done, and ends the
// work for it before the client gives up. Its body and its answer must move on
// as well, so that nobody has a place without an end.
func (s *server) limit(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		client := s.clientOf(r)
		if !s.busy.take(client) {
			return tooMany("requests")
		}
		defer s.busy.leave(client)
		out := newSender(w, r, metadataTimeout)
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = hurry(r.Body, out.control, r.ContentLength)
		}
		return inTime(h)(out, r)
	}
}

func tooMany(what string) error {
	return &httpError{status: http.StatusServiceUnavailable, text: "too many " + what + " at this moment, or from this address"}
}

// places bounds what is done at one moment, in all and for one client. A client
// may have as many places as it leaves free: half of them while it is alone,
// and an equal share among many. Whoever has none finds one.
type places struct {
	most int

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[netip.Prefix]int
	freed chan struct{} // closed when a place is free again; nil: nobody waits
}

func newPlaces(most int) *places { return &places{most: most, by: map[netip.Prefix]int{}} }

// take reports whether the client has got a place, which it must leave.
func (p *places) take(client netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(client)
}

func (p *places) takeLocked(client netip.Prefix) bool {
	if p.by[client] >= p.most-p.taken {
		return false
	}
	p.taken++
	p.by[client]++
	return true
}

// wait takes a place as soon as there is one, and reports whether there was one
// before ctx ended.
func (p *places) wait(ctx context.Context, client netip.Prefix) bool {
	for {
		p.mu.Lock()
		if p.takeLocked(client) {
			p.mu.Unlock()
			return true
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

func (p *places) leave(client netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[client]--; p.by[client] == 0 {
		delete(p.by, client)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// clientOf is what counts as one client: an IPv4 address, or the /64 of an IPv6
// address, in which one host picks addresses as it likes (RFC 7934, section 1).
// All whose address cannot be read are one.
func (s *server) clientOf(r *http.Request) netip.Prefix {
	ip, err := netip.ParseAddr(s.access.ClientIP(r))
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if ip = ip.Unmap(); ip.Is4() {
		bits = 32
	}
	client, _ := ip.WithZone("").Prefix(bits) // the length is right for the address
	return client
}

// hurry returns a body that must be there in time: a small one soon, any other
// within the time of the whole answer.
func hurry(body io.ReadCloser, control *http.ResponseController, length int64) io.ReadCloser {
	within := metadataTimeout
	if small(length) {
		within = bodyTimeout
	}
	return &hurried{body, control, time.Now().Add(within)}
}

// small is false for a body whose length nobody has said.
func small(length int64) bool { return length >= 0 && length <= smallBody }

type hurried struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

func (b *hurried) Read(p []byte) (int, error) {
	// A writer without deadlines, as in tests, has no connection to stall.
	_ = b.control.SetReadDeadline(b.until)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// From here on the connection is read to see whether the client is there.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func inTime(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), metadataTimeout)
		defer cancel()
		return h(w, r.WithContext(ctx))
	}
}

// answerWithin returns a context that ends with ctx, or after d unless answered
// is called before. answered gets the error of what was done and returns the one
// to report.
func answerWithin(ctx context.Context, d time.Duration) (_ context.Context, answered func(error) error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(d, cancel)
	return ctx, func(err error) error {
		if err == nil {
			late.Stop() // the context is that of the body now
			return nil
		}
		if !late.Stop() {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		cancel()
		return err
	}
}

// readJSON reads the body of an authorised request, at most limit bytes.
func (s *server) readJSON(r *http.Request, limit int64, to any) error {
	if err := s.openBody(r, s.bodies); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return &httpError{status: http.StatusBadRequest, text: fmt.Sprintf("the request broke off after %d bytes", len(body))}
	}
	if int64(len(body)) > limit {
		return &httpError{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("more than %d bytes", limit)}
	}
	if err := json.Unmarshal(body, to); err != nil {
		return unprocessable(fmt.Errorf("read the request: %w", err))
	}
	return nil
}

// Limited bounds the requests to each registry that are under way at one moment
// to 64, blobs not counted. What is more waits its turn, as long as whoever asks
// for it does.
func Limited(base http.RoundTripper) http.RoundTripper {
	return &limited{base: base, hosts: map[string]chan struct{}{}}
}

type limited struct {
	base http.RoundTripper

	mu    sync.Mutex // guards hosts
	hosts map[string]chan struct{}
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	switch operationOf(r.URL.Path) {
	case "manifests", "tags", "referrers":
	default:
		return l.base.RoundTrip(r)
	}
	slots := l.slots(r.URL.Host)
	select {
	case slots <- struct{}{}:
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTrip wants
		}
		return nil, fmt.Errorf("wait for one of %d requests to end: %w", maxPerHost, r.Context().Err())
	}
	free := sync.OnceFunc(func() { <-slots })
	resp, err := l.base.RoundTrip(r)
	if err != nil {
		free()
		return nil, err
	}
	resp.Body = &limitedBody{resp.Body, free}
	return resp, nil
}

func (l *limited) slots(host string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := l.hosts[host]
	if slots == nil {
		slots = make(chan struct{}, maxPerHost)
		l.hosts[host] = slots
	}
	return slots
}

// limitedBody frees its place when it has been read or closed.
type limitedBody struct {
	io.ReadCloser
	free func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.free()
	}
	return n, err
}

func (b *limitedBody) Close() error {
	b.free()
	return b.ReadCloser.Close()
}
