// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func TestRepeated(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	m := mustPush(t, newRepo(t, host, oci.Options{}), "v1", "repeated")
	image := must.Get(m.Image())(t)
	read := map[string]func(context.Context, *oci.Repo) error{
		"resolve":  func(ctx context.Context, r *oci.Repo) error { _, err := r.Resolve(ctx, "v1"); return err },
		"fetch":    func(ctx context.Context, r *oci.Repo) error { _, err := r.Fetch(ctx, "v1"); return err },
		"snapshot": func(ctx context.Context, r *oci.Repo) error { _, err := r.Snapshot(ctx); return err },
		"blob": func(ctx context.Context, r *oci.Repo) error {
			_, err := r.ReadBlob(ctx, image.Layers[0], 1000)
			return err
		},
		"manifest": func(ctx context.Context, r *oci.Repo) error { return r.PutManifest(ctx, m) },
		"push": func(ctx context.Context, r *oci.Repo) error {
			return r.PushBlob(ctx, oci.BytesBlob("text/plain", []byte("pushed again")))
		},
	}
	for _, fault := range []struct {
		name string
		do   ocitest.Act
	}{
		{"lost before", ocitest.FailBefore},
		{"lost after", ocitest.FailAfter},
		{"429", ocitest.Status(http.StatusTooManyRequests, 0)},
		{"503", ocitest.Status(http.StatusServiceUnavailable, -1)},
		{"500 after", ocitest.StatusAfter(http.StatusInternalServerError)},
	} {
		for name, do := range read {
			t.Run(fault.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Do: fault.do}})
				must.Succeed(t, do(t.Context(), r))
			})
		}
	}
}

// TestWarnings shows each text of a registry once, and what is no warning by the OCI
// distribution specification not at all.
func TestWarnings(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, v := range []string{`299 - "your token expires \"soon\""`, `299 - "read-only on Sunday"`, `199 - "other code"`, `299 agent "other agent"`, `299 - none`} {
			w.Header().Add("Warning", v)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	var got []string
	r := newRepo(t, s.Listener.Addr().String(), oci.Options{Warned: func(text string) { got = append(got, text) }})
	for range 2 {
		if _, err := r.Resolve(t.Context(), "v1"); !errors.Is(err, oci.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if want := []string{`your token expires "soon"`, "read-only on Sunday"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestRetryAfter(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	mustPush(t, newRepo(t, host, oci.Options{}), "v1", "later")
	r := newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Do: ocitest.Status(http.StatusTooManyRequests, 1)}})
	start := time.Now()
	must.Get(r.Resolve(t.Context(), "v1"))(t)
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("repeated after %s, the registry asked for 1s", waited)
	}
}

func TestUploadRepeats(t *testing.T) {
	for _, nth := range []int{1, 2} {
		for name, do := range map[string]ocitest.Act{"before": ocitest.FailBefore, "after": ocitest.FailAfter, "502": ocitest.Status(502, -1)} {
			t.Run(fmt.Sprintf("%s %d", name, nth), func(t *testing.T) {
				fault := &ocitest.Fault{Match: ocitest.On("", "upload"), Nth: nth, Do: do}
				r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: fault})
				b := oci.BytesBlob("text/plain", []byte("whole"))
				must.Succeed(t, r.PushBlob(t.Context(), b))
				if got, err := r.ReadBlob(t.Context(), b.Descriptor, 10); err != nil || string(got) != "whole" {
					t.Errorf("read back %q, %v", got, err)
				}
			})
		}
	}
}

// TestUploadToFullDisk checks that the bytes are not sent again to a registry
// with a full disk, in any form of its answer.
func TestUploadToFullDisk(t *testing.T) {
	for name, do := range map[string]ocitest.Act{
		"507": ocitest.Status(http.StatusInsufficientStorage, -1),
		"500": func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			body := `{"errors":[{"code":"UNKNOWN","message":"unknown error","detail":"write /var/lib/registry/data: no space left on device"}]}`
			return &http.Response{StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			full := &ocitest.Fault{Match: ocitest.On(http.MethodPut, "upload"), Times: -1, Do: do}
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: full})
			err := r.PushBlob(t.Context(), oci.BytesBlob("text/plain", make([]byte, 1<<20)))
			if e, ok := errors.AsType[*oci.ResponseError](err); !ok || !e.DiskFull() {
				t.Errorf("got %v, want a full disk", err)
			}
			must.Equal(t, "attempts", full.Seen(), 1)
		})
	}
}

func TestRetryGivesUp(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	for _, test := range []struct {
		name  string
		do    ocitest.Act
		want  error
		tries int
	}{
		{"always 503", ocitest.Status(503, -1), oci.ErrUnavailable, 4},
		{"429 for too long", ocitest.Status(429, 3600), oci.ErrRateLimited, 1},
		{"connection lost", ocitest.FailBefore, oci.ErrUnavailable, 4},
		{"nobody listens", ocitest.Refuse, oci.ErrUnavailable, 1},
		{"a file is missing here", func(*http.Request, http.RoundTripper) (*http.Response, error) {
			_, err := os.Open("no such certificate")
			return nil, err
		}, oci.ErrUnavailable, 1},
		{"400", ocitest.Status(400, -1), nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			fault := &ocitest.Fault{Times: -1, Do: test.do}
			r := newRepo(t, host, oci.Options{Transport: fault})
			_, err := r.Fetch(t.Context(), "v1")
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			must.Equal(t, "attempts", fault.Seen(), test.tries)
		})
	}
	t.Run("retry after is kept", func(t *testing.T) {
		r := newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Times: -1, Do: ocitest.Status(429, 3600)}})
		_, err := r.Snapshot(t.Context())
		if e, ok := errors.AsType[*oci.ResponseError](err); !ok || e.RetryAfter != time.Hour {
			t.Errorf("got %v, want a RetryAfter of 1h", err)
		}
	})
}

// TestTagWriteOnce checks the guarantee that locks rely on: one attempt, and an
// error that distinguishes "did not happen" from "unknown".
func TestTagWriteOnce(t *testing.T) {
	for _, test := range []struct {
		name      string
		do        ocitest.Act
		uncertain bool
		want      error
	}{
		{"lost before", ocitest.FailBefore, true, oci.ErrUnavailable},
		{"lost after", ocitest.FailAfter, true, oci.ErrUnavailable},
		{"500", ocitest.Status(500, -1), true, oci.ErrUnavailable},
		{"504 after", ocitest.StatusAfter(504), true, oci.ErrUnavailable},
		{"nobody listens", ocitest.Refuse, false, oci.ErrUnavailable},
		{"429", ocitest.Status(429, 3600), false, oci.ErrRateLimited}, // too long to wait
		{"403", ocitest.Status(403, -1), false, oci.ErrDenied},
		{"413", ocitest.Status(413, -1), false, oci.ErrTooLarge},
		{"409", ocitest.Status(409, -1), false, oci.ErrExists},
		{"405", ocitest.Status(405, -1), false, oci.ErrUnsupported},
	} {
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			t.Run(test.name+" "+method, func(t *testing.T) {
				fault := &ocitest.Fault{Match: ocitest.OnTag(method), Do: test.do}
				r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: fault})
				m := mustPush(t, r, "", "once")
				var err error
				if method == http.MethodPut {
					err = r.PutTag(t.Context(), "v1", m)
				} else {
					err = r.Untag(t.Context(), "v1")
				}
				if !errors.Is(err, test.want) || errors.Is(err, oci.ErrUncertain) != test.uncertain {
					t.Errorf("got %v, want %v, uncertain %v", err, test.want, test.uncertain)
				}
				must.Equal(t, "attempts", fault.Seen(), 1)
			})
		}
	}
}

// TestTagWriteAfterRefusal repeats the write of a tag after 429, by which the registry refused
// it, once the pause that it asked for is over; not after an unknown outcome that follows.
func TestTagWriteAfterRefusal(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		for _, want := range []error{nil, oci.ErrUncertain} {
			refused := &ocitest.Fault{Match: ocitest.OnTag(method), Times: 2, Do: ocitest.Status(429, 0)}
			lost := &ocitest.Fault{Match: ocitest.OnTag(method), Nth: 3, Do: ocitest.FailAfter}
			if want == nil {
				lost.Nth = 1 << 20
			}
			refused.Base = http.DefaultTransport
			lost.Base = refused
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: lost, Retry: oci.Retry{InitialBackoff: time.Millisecond}})
			err := r.PutTag(t.Context(), "v1", mustPush(t, r, "", "again"))
			if method == http.MethodDelete && err == nil {
				err = r.Untag(t.Context(), "v1")
			}
			if want == nil && err != nil || !errors.Is(err, want) || refused.Seen() != 3 {
				t.Errorf("%s: %v, want %v; %d attempts", method, err, want, refused.Seen())
			}
		}
	}
}

// timedOut is a context whose deadline passes when the test decides.
type timedOut struct {
	context.Context
	done chan struct{}
}

func (c timedOut) Done() <-chan struct{} { return c.done }

func (c timedOut) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return c.Context.Err()
	}
}

func TestTagWriteTimesOut(t *testing.T) {
	ctx := timedOut{t.Context(), make(chan struct{})}
	hang := func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		close(ctx.done) // the deadline passes during the request
		return ocitest.Hang(r, next)
	}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: &ocitest.Fault{Match: ocitest.OnTag(http.MethodPut), Do: hang}})
	m := mustPush(t, r, "", "hangs")
	err := r.PutTag(ctx, "v1", m)
	if !errors.Is(err, oci.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want uncertain and deadline exceeded", err)
	}
}

func TestReadResumes(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	content := strings.Repeat("0123456789", 10_000)
	b := oci.BytesBlob("text/plain", []byte(content))
	must.Succeed(t, newRepo(t, host, oci.Options{}).PushBlob(t.Context(), b))
	for _, test := range []struct {
		name  string
		fault *ocitest.Fault
		want  error
	}{
		{"cut twice", &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Times: 2, Do: ocitest.CutBody}, nil},
		{"always cut", &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Times: -1, Do: ocitest.CutBody}, oci.ErrUnavailable},
		{"wrong byte", &ocitest.Fault{Match: ocitest.On(http.MethodGet, "blob"), Do: ocitest.Corrupt}, oci.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := must.Get(newRepo(t, host, oci.Options{Transport: test.fault}).Open(t.Context(), b.Descriptor))(t)
			defer body.Close()
			got, err := io.ReadAll(body)
			if !errors.Is(err, test.want) || test.want == nil && (err != nil || string(got) != content) {
				t.Errorf("%d bytes, %v; want %v", len(got), err, test.want)
			}
		})
	}
}

func TestCutAnswers(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	m := mustPush(t, newRepo(t, host, oci.Options{}), "v1", "cut")
	r := newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Match: ocitest.On(http.MethodGet, "manifest"), Do: ocitest.CutBody}})
	if got, err := r.Fetch(t.Context(), "v1"); err != nil || got.Digest != m.Digest {
		t.Errorf("fetch: %v", err)
	}
	r = newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Match: ocitest.On(http.MethodGet, "tags"), Do: ocitest.CutBody}})
	if got, err := r.Snapshot(t.Context()); err != nil || len(got.Tags) != 1 {
		t.Errorf("tags: %v", err)
	}
}

func TestWrongAnswers(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	m := mustPush(t, newRepo(t, host, oci.Options{}), "v1", "right")
	html := ocitest.Respond("text/html; charset=utf-8", "<html>welcome</html>")
	for _, test := range []struct {
		name string
		do   ocitest.Act
		call func(context.Context, *oci.Repo) error
		want error
		text string
	}{
		{"HTML for tags", html, func(ctx context.Context, r *oci.Repo) error { _, err := r.Snapshot(ctx); return err }, oci.ErrUnavailable, "is this an OCI registry?"},
		{"HTML for a manifest", html, func(ctx context.Context, r *oci.Repo) error { _, err := r.Fetch(ctx, "v1"); return err }, oci.ErrUnavailable, "is this an OCI registry?"},
		{"HTML for a blob", html, func(ctx context.Context, r *oci.Repo) error { _, err := r.Open(ctx, m.Descriptor); return err }, oci.ErrUnavailable, "is this an OCI registry?"},
		{"text for tags", ocitest.Respond("text/plain", "hello"), func(ctx context.Context, r *oci.Repo) error { _, err := r.Snapshot(ctx); return err }, oci.ErrCorrupt, "something other than a list"},
		{"text for a manifest", ocitest.Respond("text/plain", "hello"), func(ctx context.Context, r *oci.Repo) error { _, err := r.Fetch(ctx, "v1"); return err }, oci.ErrCorrupt, "something other than a manifest"},
		{"other bytes", ocitest.Respond(ocispec.MediaTypeImageManifest, "{}"), func(ctx context.Context, r *oci.Repo) error { _, err := r.Fetch(ctx, m.Digest.String()); return err }, oci.ErrCorrupt, "instead of"},
		{"changed byte", ocitest.Corrupt, func(ctx context.Context, r *oci.Repo) error { _, err := r.Fetch(ctx, "v1"); return err }, oci.ErrCorrupt, "instead of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.call(t.Context(), newRepo(t, host, oci.Options{Transport: &ocitest.Fault{Do: test.do}}))
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), host) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

// TestWebServer sends requests to a server that is no registry.
func TestWebServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	r := newRepo(t, s.Listener.Addr().String(), oci.Options{})
	if _, err := r.Snapshot(t.Context()); !errors.Is(err, oci.ErrUnavailable) || !strings.Contains(err.Error(), "is this an OCI registry?") {
		t.Errorf("got %v", err)
	}
}

func TestPing(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>welcome</html>")
	}))
	t.Cleanup(page.Close)
	basic := &ocitest.Issuer{Users: map[string]string{"u": "password"}, Basic: true, Allow: func(user, _, _ string) bool { return user == "u" }}
	tokens := &ocitest.Issuer{Users: map[string]string{"u": "password"}}
	for _, test := range []struct {
		name, host string
		cred       oci.CredentialFunc
		want       error
	}{
		{"open", ocitest.New(t, ocitest.Quirks{}), nil, nil},
		{"basic", ocitest.New(t, ocitest.Quirks{Auth: basic}), login("u", "password"), nil},
		{"basic, wrong", ocitest.New(t, ocitest.Quirks{Auth: basic}), login("u", "wrong"), oci.ErrUnauthenticated},
		{"token", ocitest.New(t, ocitest.Quirks{Auth: tokens}), login("u", "password"), nil},
		{"token, wrong", ocitest.New(t, ocitest.Quirks{Auth: tokens}), login("u", "wrong"), oci.ErrUnauthenticated},
		{"web page", page.Listener.Addr().String(), nil, oci.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := must.Get(oci.New(test.host, oci.Options{Credential: test.cred}))(t)
			if err := c.Ping(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	l.Close()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	for _, test := range []struct {
		name, host, text string
		o                oci.Options
	}{
		{"refused", closed, "connection refused", oci.Options{}},
		{"unknown name", "registry.invalid", "no such host", oci.Options{}},
		{"unknown CA", tls.Listener.Addr().String(), "certificate", oci.Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRepo(t, test.host, test.o)
			err := r.PutTag(t.Context(), "a", newArtifact(t, "x").Root)
			if !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, oci.ErrUncertain) {
				t.Errorf("got %v, want unavailable, not uncertain", err)
			}
			if !strings.Contains(err.Error(), test.host) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %q, want host %s and %q", err, test.host, test.text)
			}
		})
	}
}

// TestLoopbackScheme checks that a loopback registry may use http without a
// flag, that TLS is detected, and that the request itself is sent once.
func TestLoopbackScheme(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for _, test := range []struct {
		name string
		s    *httptest.Server
	}{{"http", plain}, {"https", secure}} {
		t.Run(test.name, func(t *testing.T) {
			count := &ocitest.Count{Base: secure.Client().Transport}
			r := newRepo(t, test.s.Listener.Addr().String(), oci.Options{Transport: count})
			mustPush(t, r, "v1", "scheme")
			must.Get(r.Resolve(t.Context(), "v1"))(t)
			want := map[string]int{"HEAD manifest": 1, "PUT manifest": 2, "HEAD blob": 2}
			got := count.Take()
			delete(got, "POST upload")
			delete(got, "PUT upload")
			must.Match(t, "requests", got, want)
		})
	}
}

// TestRedirect follows a redirect of a blob to another host and checks that
// nothing secret is sent there.
func TestRedirect(t *testing.T) {
	b := oci.BytesBlob("text/plain", []byte("elsewhere"))
	var leaked atomic.Bool
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			leaked.Store(true)
		}
		if !strings.HasSuffix(r.URL.Path, b.Digest.String()) {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "elsewhere")
	}))
	t.Cleanup(storage.Close)
	for _, basic := range []bool{true, false} {
		issuer := &ocitest.Issuer{Users: map[string]string{"u": "password"}, Basic: basic}
		host := ocitest.New(t, ocitest.Quirks{Auth: issuer, RedirectBlobs: storage.URL + "/"})
		r := newRepo(t, host, oci.Options{Credential: login("u", "password")})
		must.Succeed(t, r.PushBlob(t.Context(), b))
		for range 2 {
			if got, err := r.ReadBlob(t.Context(), b.Descriptor, 100); err != nil || string(got) != "elsewhere" {
				t.Errorf("basic %v: got %q, %v", basic, got, err)
			}
		}
		if leaked.Load() {
			t.Errorf("basic %v: the redirect carried the credential", basic)
		}
	}
}

// TestUploadElsewhere has a registry redirect an upload to another host, which
// requires a login. It gets no credential.
func TestUploadElsewhere(t *testing.T) {
	var leaked atomic.Bool
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="give me"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(storage.Close)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Location", strings.Replace(storage.URL, "127.0.0.1", "localhost", 1)+"/upload")
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(registry.Close)
	r := newRepo(t, registry.Listener.Addr().String(), oci.Options{Credential: login("u", "password")})
	err := r.PushBlob(t.Context(), oci.BytesBlob("text/plain", []byte("x")))
	if !errors.Is(err, oci.ErrUnauthenticated) {
		t.Errorf("got %v, want ErrUnauthenticated", err)
	}
	if leaked.Load() {
		t.Error("the other host got our login")
	}
}

func TestRedirectedWrite(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("https://elsewhere.example.com/", http.StatusTemporaryRedirect))
	t.Cleanup(s.Close)
	r := newRepo(t, s.Listener.Addr().String(), oci.Options{})
	err := r.PutTag(t.Context(), "a", newArtifact(t, "x").Root)
	if !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, oci.ErrUncertain) || !strings.Contains(err.Error(), "elsewhere.example.com") {
		t.Errorf("got %v", err)
	}
}
