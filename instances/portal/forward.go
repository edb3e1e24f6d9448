// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/service"
)

const (
	// hopRefused, in [service.HopHeader], refuses to forward a request that was forwarded already.
	hopRefused = "refused"
	// AsOfHeader gives the time up to which the copy behind an answer was current.
	AsOfHeader = "Okara-As-Of"
)

const (
	forwardBody   = 10 * time.Second
	forwardHeader = 15 * time.Second // until the leader begins to answer
	maxForwarded  = 64               // requests that wait for a leader
	maxStreams    = 256              // event streams
	forwardStall  = 30 * time.Second // for a client to read a piece of an answer
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// ForwardOptions configure a [Forward]. Kit, Leader and Transport are required.
type ForwardOptions struct {
	Kit *service.Kit
	// Leader returns the leader's address, or "", and whether it is this replica.
	Leader func(ctx context.Context) (address string, here bool)
	// View returns what this replica knows; nil: it knows nothing, as a portal.
	View func(ctx context.Context) (lifecycle.View, error)
	Own  http.Handler // answers here; nil: everything is handed on
	// Runner makes this replica answer only forwarded requests.
	Runner bool
	// Refuse refuses requests that can be refused without the leader; nil: refuses none.
	Refuse func(*http.Request) error
	// Transport reaches other replicas: it verifies their certificates, and uses no proxy.
	Transport http.RoundTripper
	Plain     bool // also without TLS, to any address
}

// Forward stands before the API and the pages of instances, and forwards requests to the leading
// replica, which authenticates the caller. It is safe for concurrent use.
type Forward struct {
	o       ForwardOptions
	limiter *service.ClientLimiter
	streams *service.ClientLimiter
}

// NewForward returns a handler that answers requests itself where this replica leads.
func NewForward(o ForwardOptions) *Forward {
	return &Forward{o: o, limiter: service.NewClientLimiter(maxForwarded), streams: service.NewClientLimiter(maxStreams)}
}

// CheckPeer refuses addresses that must get no token: neither https nor loopback, unless plain.
func CheckPeer(text string, plain bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("not a URL such as https://10.0.0.5:8443")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return nil, errors.New("must consist of a scheme, a host and a port only")
	case u.Scheme == "http" && !plain && !netaddr.IsLoopback(u.Host):
		return nil, errors.New("it is not https, and the tokens of all users are sent there\nhint: set forward_plain = true if that network is trusted")
	}
	u.Path = ""
	return u, nil
}

// errNoAnswer says that the leader was asked and it is unknown whether it acted.
var errNoAnswer = errors.New("no response from the leader")

func (f *Forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hop := r.Header.Get(service.HopHeader) != ""
	address, here := f.o.Leader(r.Context())
	if here && f.o.Own != nil && (hop || !f.o.Runner) {
		f.o.Own.ServeHTTP(w, r)
		return
	}
	f.o.Kit.Handle(func(w http.ResponseWriter, r *http.Request) error {
		switch {
		case f.o.Runner && !hop:
			return &service.Error{Status: http.StatusMisdirectedRequest, Text: "this server answers only requests that another replica forwards"}
		case hop:
			w.Header().Set(service.HopHeader, hopRefused)
			f.noLeader(w, r)
			return nil
		}
		return f.handOn(w, r, address)
	}, f.o.Kit.Fail).ServeHTTP(w, r)
}

// handOn forwards a request to the leader, or answers a read from this replica's copy, which
// metrics count as both.
func (f *Forward) handOn(w http.ResponseWriter, r *http.Request, address string) error {
	err := f.forward(w, r, address)
	if !errors.Is(err, errNoAnswer) {
		return err
	}
	f.o.Kit.Log(r).Warn("request not forwarded", "path", service.LogPath(r), "error", err)
	if readOnly(r) && f.o.Own != nil && f.o.View != nil {
		view, err := f.o.View(r.Context())
		if err == nil && view.Document != nil {
			w.Header().Set(AsOfHeader, view.AsOf.UTC().Format(time.RFC3339))
			f.o.Own.ServeHTTP(w, r)
			return nil
		}
	}
	f.noLeader(w, r)
	return nil
}

func readOnly(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// forward sends the request on and its answer back. It returns an error only if nothing
// was answered; errors on the way to the leader wrap errNoAnswer.
func (f *Forward) forward(w http.ResponseWriter, r *http.Request, address string) error {
	if address == "" {
		return fmt.Errorf("%w: no leader is known", errNoAnswer)
	}
	to, err := CheckPeer(address, f.o.Plain)
	if err != nil {
		return fmt.Errorf("%w: the address of the leader: %w", errNoAnswer, err)
	}
	if f.o.Refuse != nil {
		if err := f.o.Refuse(r); err != nil {
			return err
		}
	}
	if err := f.o.Kit.OpenBody(r); err != nil {
		return err
	}
	body, err := wholeBody(w, r)
	if err != nil {
		return err
	}
	x := &exchange{f: f, client: f.o.Kit.Client(r), to: to, body: body}
	var ok bool
	if x.release, ok = f.limiter.Acquire(x.client, 1); !ok {
		return service.TooMany("requests")
	}
	defer func() { x.release() }()
	return x.run(w, r)
}

// exchange is one request to the leader.
type exchange struct {
	f       *Forward
	client  netip.Prefix
	to      *url.URL
	body    []byte
	release func() // releases the limiter slot that it holds now
	cancel  context.CancelFunc
	begin   *time.Timer
	failed  error
}

func (x *exchange) run(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x.cancel = cancel
	x.begin = time.AfterFunc(forwardHeader, cancel)
	defer x.begin.Stop()
	proxy := httputil.ReverseProxy{
		Transport: x.f.o.Transport, Rewrite: x.rewrite, ModifyResponse: x.checkAnswer,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { x.failed = err },
	}
	proxy.ServeHTTP(service.NewPaced(w, forwardStall), r.WithContext(ctx))
	if _, _, own := service.Own(x.failed); x.failed == nil || own || r.Context().Err() != nil {
		return x.failed
	}
	return fmt.Errorf("%w: %w", errNoAnswer, x.failed)
}

// checkAnswer checks an answer's header. An event stream moves to a limiter of its own.
func (x *exchange) checkAnswer(resp *http.Response) error {
	if !x.begin.Stop() {
		return errors.New("the response came too late")
	}
	if resp.Header.Get(service.HopHeader) != "" {
		return errors.New("no longer the leader")
	}
	resp.Header.Del(httpserve.RequestID) // these two are on every answer here
	resp.Header.Del(service.NoSniff)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	release, ok := x.f.streams.Acquire(x.client, 1)
	if !ok {
		return service.TooMany("streams")
	}
	x.release()
	x.release = release
	go func() {
		select {
		case <-resp.Request.Context().Done():
		case <-x.f.o.Kit.Closing():
			x.cancel()
		}
	}()
	return nil
}

// rewrite makes the request to the leader, without headers of the connection.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = x.to.Scheme
	p.Out.URL.Host = x.to.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Host = p.In.Host // the leader has to accept this host as well
	p.Out.Header.Del("Upgrade")
	p.Out.Header.Del("Expect")
	p.Out.Header.Set(service.HopHeader, x.f.o.Kit.Hop(p.In))
	p.Out.Header.Set("X-Forwarded-For", x.f.o.Kit.Guard.ClientIP(p.In)) // the leader believes it of proxies only
	p.Out.Body = http.NoBody
	p.Out.GetBody = nil
	p.Out.ContentLength = int64(len(x.body))
	if len(x.body) > 0 {
		p.Out.Body = io.NopCloser(bytes.NewReader(x.body))
	}
}

// wholeBody reads the body before a slot is taken, which a slow sender would hold.
func wholeBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Header.Get("Upgrade") != "" {
		return nil, &service.Error{Status: http.StatusBadRequest, Text: "protocol upgrades are not supported here"}
	}
	if r.ContentLength > maxBody {
		return nil, errTooLarge()
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(forwardBody)) // a writer without deadlines, as in tests, has no connection to stall
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, &service.Error{Status: http.StatusRequestTimeout, Text: "the body did not arrive in time"}
	case len(b) > maxBody:
		return nil, errTooLarge()
	}
	return b, nil
}

func errTooLarge() error {
	return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the body is larger than %d KiB", maxBody>>10)}
}

// noLeader answers where no leader does. Repeating a change with its key tells whether it was done.
func (f *Forward) noLeader(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "2")
	service.WriteError(w, r, http.StatusServiceUnavailable, noLeader(r))
}
