// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func login(user, password string) oci.CredentialFunc {
	return func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{Username: user, Password: password}, nil
	}
}

func TestTokens(t *testing.T) {
	for _, test := range []struct {
		name    string
		actions []string
		want    []string // requested scopes, one per token
	}{
		{"least", nil, []string{"repository:test/repo:pull,push", "repository:test/repo:delete"}},
		{"all at once", []string{"pull", "push", "delete"}, []string{"repository:test/repo:delete,pull,push"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			issuer := &ocitest.Issuer{Users: map[string]string{"u": "password"}}
			count := &ocitest.Count{}
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{
				Credential: login("u", "password"), Actions: test.actions, Transport: count,
			})
			b := oci.BytesBlob("text/plain", []byte("x"))
			must.Succeed(t, r.PushBlob(t.Context(), b))
			must.Match(t, "cold push", count.Take(), map[string]int{"GET token": 1, "POST upload": 2})
			m := mustPush(t, r, "v1", "tokens")
			count.Take()
			if _, err := r.Fetch(t.Context(), "v1"); err != nil { // covered by the token for pull,push
				t.Fatal(err)
			}
			must.Match(t, "warm fetch", count.Take(), map[string]int{"GET manifest": 1})
			must.Succeed(t, r.Delete(t.Context(), m.Descriptor))
			must.Match(t, "scopes", issuer.Scopes(), test.want)
		})
	}
}

// TestAllOrNothing has a token server that refuses a reader who also requests push.
func TestAllOrNothing(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"u": "password", "reader": "password"}, Strict: true}
	issuer.Allow = func(user, _, action string) bool { return user == "u" || user == "reader" && action == "pull" }
	host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
	m := mustPush(t, newRepo(t, host, oci.Options{Credential: login("u", "password")}), "v1", "all")
	count := &ocitest.Count{}
	r := newRepo(t, host, oci.Options{Credential: login("reader", "password"), Actions: []string{"pull", "push", "delete"}, Transport: count})
	for range 2 {
		must.Get(r.Fetch(t.Context(), "v1"))(t)
	}
	must.Match(t, "requests", count.Take(), map[string]int{"GET manifest": 4, "GET token": 2})
	if err := r.PutTag(t.Context(), "v2", m); !errors.Is(err, oci.ErrDenied) {
		t.Errorf("write: %v, want ErrDenied", err)
	}
}

// TestTokenPerRepository checks that two repositories of one client never share
// a token.
//
// Shows: registries 25 | no exchange of tokens, or joined scopes | the same; opentofu/opentofu#3316
func TestTokenPerRepository(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"a": "password-a", "b": "password-b"}, Allow: func(user, repository, _ string) bool {
		return strings.HasPrefix(repository, "p/"+user)
	}}
	c := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{Auth: issuer})+"/p", oci.Options{
		Credential: func(_ context.Context, _, repository string) (oci.Credential, error) {
			name := strings.TrimPrefix(repository, "p/")[:1]
			return oci.Credential{Username: name, Password: "password-" + name}, nil
		},
	}))(t)
	for _, name := range []string{"a", "b", "a"} {
		r := must.Get(c.Repo(name))(t)
		mustPush(t, r, "v1", "of "+name)
	}
	want := []string{"repository:p/a:pull", "repository:p/a:pull,push", "repository:p/b:pull", "repository:p/b:pull,push"}
	must.Match(t, "scopes", issuer.Scopes(), want)
}

func TestTokenExpiry(t *testing.T) {
	for _, test := range []struct {
		name   string
		opaque bool
	}{{"shown in the token", false}, {"unknown", true}} {
		t.Run(test.name, func(t *testing.T) {
			issuer := &ocitest.Issuer{Users: map[string]string{"u": "password"}, TTL: 100 * time.Millisecond, Opaque: test.opaque}
			count := &ocitest.Count{}
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{Credential: login("u", "password"), Transport: count, Actions: []string{"pull", "push"}})
			m := mustPush(t, r, "v1", "expires")
			for end := time.Now().Add(250 * time.Millisecond); time.Now().Before(end); {
				must.Succeed(t, r.PutTag(t.Context(), "v1", m))
			}
			if n := len(issuer.Scopes()); n < 2 || n > 6 {
				t.Errorf("%d tokens in 250 ms, each good for 100 ms", n)
			}
		})
	}
	t.Run("revoked", func(t *testing.T) {
		issuer := &ocitest.Issuer{Users: map[string]string{"u": "password"}}
		count := &ocitest.Count{}
		r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{Credential: login("u", "password"), Transport: count})
		m := mustPush(t, r, "v1", "revoked")
		issuer.Revoke()
		count.Take()
		must.Succeed(t, r.PutTag(t.Context(), "v1", m))
		// One PUT was refused and had no effect, one succeeded.
		must.Match(t, "requests", count.Take(), map[string]int{"GET token": 1, "PUT manifest": 2})
	})
}

func TestRefusals(t *testing.T) {
	reader := func(user, _, action string) bool { return user == "u" && action == "pull" }
	for _, test := range []struct {
		name   string
		issuer *ocitest.Issuer
		cred   oci.CredentialFunc
		want   error
		text   string
		tries  int // maximum number of requests
	}{
		{"anonymous, basic", &ocitest.Issuer{Users: map[string]string{"u": "password"}, Basic: true}, nil, oci.ErrUnauthenticated, "/test/repo: authentication required", 1},
		{"anonymous, token", &ocitest.Issuer{Users: map[string]string{"u": "password"}}, nil, oci.ErrUnauthenticated, "authentication required", 3},
		{"wrong password, basic", &ocitest.Issuer{Users: map[string]string{"u": "password"}, Basic: true}, login("u", "wrong-secret"), oci.ErrUnauthenticated, "authentication required", 3},
		{"wrong password, token", &ocitest.Issuer{Users: map[string]string{"u": "password"}}, login("u", "wrong-secret"), oci.ErrUnauthenticated, "wrong user name or password", 2},
		{"token where a password is wanted", &ocitest.Issuer{Users: map[string]string{"u": "password"}, Basic: true}, func(context.Context, string, string) (oci.Credential, error) {
			return oci.Credential{RegistryToken: "a-secret"}, nil
		}, oci.ErrUnauthenticated, "authentication required", 3},
		{"may only read", &ocitest.Issuer{Users: map[string]string{"u": "password"}, Allow: reader}, login("u", "password"), oci.ErrDenied, "", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			count := &ocitest.Count{}
			r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: test.issuer}), oci.Options{Credential: test.cred, Transport: count})
			err := r.PutTag(t.Context(), "v1", newArtifact(t, "x").Root)
			if !errors.Is(err, test.want) || errors.Is(err, oci.ErrUncertain) || test.text != "" && strings.Count(err.Error(), test.text) != 1 || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %v with %q once", err, test.want, test.text)
			}
			if n := count.Total(); n > test.tries {
				t.Errorf("%d requests, want at most %d", n, test.tries)
			}
		})
	}
}

// TestTokenServerInside has a registry and a token server with different names
// on a private network. A public address stands for a registry on the internet.
func TestTokenServerInside(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"u": "password"}}
	host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
	_, port := must.GetBoth(net.SplitHostPort(host))(t)
	issuer.Realm = "http://localhost:" + port + "/token?account=x"
	t.Run("registry inside", func(t *testing.T) {
		r := newRepo(t, host, oci.Options{Credential: login("u", "password")})
		mustPush(t, r, "v1", "inside")
		r = newRepo(t, host, oci.Options{Credential: login("u", "wrong")})
		_, err := r.Fetch(t.Context(), "v1")
		e, ok := errors.AsType[*oci.ResponseError](err)
		if !ok || e.URL != "http://localhost:"+port+"/token" || !errors.Is(err, oci.ErrUnauthenticated) {
			t.Errorf("wrong password: %v", err)
		}
	})
	t.Run("no token in the answer", func(t *testing.T) {
		empty := &ocitest.Fault{Match: ocitest.On("", "token"), Times: -1, Do: ocitest.Respond("application/json", "{}")}
		_, err := newRepo(t, host, oci.Options{Credential: login("u", "password"), Transport: empty}).Fetch(t.Context(), "v1")
		if err == nil || !strings.Contains(err.Error(), `"http://localhost:`+port+`/token`) {
			t.Errorf("got %v, want the token server's URL", err)
		}
	})
	t.Run("registry outside", func(t *testing.T) {
		r := newRepo(t, "192.0.2.1", oci.Options{PlainHTTP: true, Credential: login("u", "password"), Transport: redial{host}})
		if _, err := r.Fetch(t.Context(), "v1"); err == nil || !strings.Contains(err.Error(), "blocked prefix") {
			t.Errorf("got %v, want a refusal of the token server", err)
		}
	})
	t.Run("metadata service", func(t *testing.T) {
		for _, issuer.Realm = range []string{"http://169.254.169.254/token", "http://[fd00:ec2::254]/token", "http://100.100.100.200/token"} {
			r := newRepo(t, host, oci.Options{Credential: login("u", "password")})
			if _, err := r.Fetch(t.Context(), "v1"); err == nil || !strings.Contains(err.Error(), "blocked prefix") {
				t.Errorf("got %v, want a refusal of the token server %s", err, issuer.Realm)
			}
		}
	})
}

// redial sends every request to one host, regardless of its URL.
type redial struct{ host string }

func (d redial) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = d.host
	return http.DefaultTransport.RoundTrip(req)
}

func TestIdentityToken(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"refresh-me": "refresh-me"}}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{IdentityToken: "refresh-me"}, nil
	}})
	mustPush(t, r, "v1", "identity")
}

// TestTokenAsPassword checks that a registry that requires a password gets a token as one.
func TestTokenAsPassword(t *testing.T) {
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: &ocitest.Issuer{Users: map[string]string{"token": "a-secret"}, Basic: true}}), oci.Options{Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{RegistryToken: "a-secret"}, nil
	}})
	mustPush(t, r, "v1", "token")
}

// TestNewCredential checks that the credential function is called again when the registry refuses
// an expired credential, and that the request then succeeds.
func TestNewCredential(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"u": "second"}, Basic: true}
	var calls, rejected atomic.Int32
	count := &ocitest.Count{}
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{
		Transport: count,
		Credential: func(context.Context, string, string) (oci.Credential, error) {
			calls.Add(1)
			if rejected.Load() == 0 {
				return oci.Credential{Username: "u", Password: "first"}, nil
			}
			return oci.Credential{Username: "u", Password: "second"}, nil
		},
		Rejected: func(_, _ string, c oci.Credential, _ bool) {
			must.Equal(t, "rejected", c.Password, "first")
			rejected.Add(1)
		},
	})
	for range 2 {
		if _, err := r.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("got %v, want not found", err)
		}
	}
	if calls.Load() != 3 || rejected.Load() != 1 {
		t.Errorf("asked %d times, rejected %d times; want 3 and 1", calls.Load(), rejected.Load())
	}
	// Anonymous, with the first password, the check of that password,
	// anonymous, with the second; then known.
	must.Match(t, "requests", count.Take(), map[string]int{"GET ping": 1, "GET tags": 5})
}

// TestCredentialComesBack checks that a refused credential is used again when
// its successor is refused.
func TestCredentialComesBack(t *testing.T) {
	users := map[string]string{"a": "x"}
	issuer := &ocitest.Issuer{Basic: true, Users: map[string]string{"a": "x", "b": "x"}, Allow: func(user, _, _ string) bool { return users[user] != "" }}
	last := "a"
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{
		Credential: func(context.Context, string, string) (oci.Credential, error) {
			return oci.Credential{Username: last, Password: "x"}, nil
		},
		Rejected: func(_, _ string, c oci.Credential, _ bool) {
			last = map[string]string{"a": "b", "b": "a"}[c.Username]
		},
	})
	for _, user := range []string{"a", "b", "a"} {
		users = map[string]string{user: "x"}
		if _, err := r.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("while %s is good: %v", user, err)
		}
	}
}

// TestNewCredentialParallel lets a credential expire during many parallel requests.
func TestNewCredentialParallel(t *testing.T) {
	for _, basic := range []bool{true, false} {
		issuer := &ocitest.Issuer{Users: map[string]string{"u": "new", "old": "old"}, Basic: basic}
		var expired atomic.Bool
		var rejected atomic.Int32
		issuer.Allow = func(user, _, _ string) bool { return user == "u" || user == "old" && !expired.Load() }
		r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: issuer}), oci.Options{
			Credential: func(context.Context, string, string) (oci.Credential, error) {
				if rejected.Load() > 0 {
					return oci.Credential{Username: "u", Password: "new"}, nil
				}
				return oci.Credential{Username: "old", Password: "old"}, nil
			},
			Rejected: func(_, _ string, c oci.Credential, _ bool) { rejected.Add(1) },
		})
		mustPush(t, r, "v1", "parallel")
		expired.Store(true)
		issuer.Revoke()
		g, ctx := errgroup.WithContext(t.Context())
		for range 16 {
			g.Go(func() error { _, err := r.Resolve(ctx, "v1"); return err })
		}
		if err := g.Wait(); err != nil || rejected.Load() != 1 {
			t.Errorf("basic %v: %v, rejected %d times; want once", basic, err, rejected.Load())
		}
	}
}

func TestCredentialError(t *testing.T) {
	broken := errors.New("helper is broken")
	r := newRepo(t, ocitest.New(t, ocitest.Quirks{Auth: &ocitest.Issuer{Basic: true}}), oci.Options{Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{}, broken
	}})
	if _, err := r.Snapshot(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "find credentials for "+r.String()) {
		t.Errorf("got %v", err)
	}
}

// TestLeaks has a registry that repeats the request's headers in its refusals,
// and looks for the secrets in every error, log record and span.
func TestLeaks(t *testing.T) {
	const password, refresh = "pass-SECRET-word", "refresh-SECRET-token"
	for _, test := range []struct {
		name   string
		basic  bool
		opaque bool
		cred   oci.Credential
	}{
		{"basic", true, false, oci.Credential{Username: "u", Password: password}},
		{"jwt", false, false, oci.Credential{Username: "u", Password: password}},
		{"opaque", false, true, oci.Credential{Username: "u", Password: password}},
		{"identity", false, true, oci.Credential{IdentityToken: refresh}},
	} {
		t.Run(test.name, func(t *testing.T) {
			issuer := &ocitest.Issuer{Users: map[string]string{"u": password, refresh: refresh}, Basic: test.basic, Opaque: test.opaque}
			host := ocitest.New(t, ocitest.Quirks{Auth: issuer, EchoHeaders: true, NoDelete: true})
			var log bytes.Buffer
			spans := tracetest.NewSpanRecorder()
			otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
			t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
			out := must.Get(httpserve.Transport(httpserve.TransportOptions{}))(t)
			seen := &recorder{base: out}
			r := newRepo(t, host, oci.Options{
				Credential: func(context.Context, string, string) (oci.Credential, error) { return test.cred, nil },
				Logger:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Transport:  seen,
			})
			m := mustPush(t, r, "v1", "leaks")
			_, missing := r.Fetch(t.Context(), "missing")
			var text strings.Builder
			text.WriteString(errors.Join(missing, r.Untag(t.Context(), "v1"), r.Delete(t.Context(), m.Descriptor)).Error() + log.String())
			for _, span := range spans.Ended() {
				text.WriteString(fmt.Sprintln(span.Name(), span.Attributes(), span.Events(), span.Status()))
			}
			if len(spans.Ended()) < 5 {
				t.Errorf("%d spans", len(spans.Ended()))
			}
			if !strings.Contains(text.String(), "your headers were") || !strings.Contains(text.String(), "registry request") {
				t.Fatalf("the registry echoed nothing or nothing was logged:\n%s", text.String())
			}
			for _, secret := range append(seen.sent(), password, refresh, "SECRET") {
				if strings.Contains(text.String(), secret) {
					t.Errorf("%q is in:\n%s", secret, text.String())
				}
			}
		})
	}
}

// recorder records the credentials that were sent.
type recorder struct {
	base http.RoundTripper

	mu   sync.Mutex // guards list
	list []string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, value, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		r.mu.Lock()
		r.list = append(r.list, value)
		r.mu.Unlock()
	}
	return r.base.RoundTrip(req)
}

func (r *recorder) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
