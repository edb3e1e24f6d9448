// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// endless writes until the client stops, and checks how much that was.
func endless(t *testing.T, w io.Writer, text string) {
	const limit = 64 << 20
	piece, sent := []byte(strings.Repeat(text, 64<<10/len(text))), 0
	for sent < limit {
		n, err := w.Write(piece)
		if sent += n; err != nil {
			return
		}
	}
	t.Errorf("the client took %d bytes", sent)
}

// TestLyingOrigin has origins with endless or growing answers.
//
// Shows: mistakes 21
func TestLyingOrigin(t *testing.T) {
	first := must.Get(addr.ParseVersion("1.0.0"))(t)
	for name, test := range map[string]struct {
		path   string // of the wrong answer
		answer func(w http.ResponseWriter)
		want   error
	}{
		"JSON without an end": {"versions", func(w http.ResponseWriter) { endless(t, w, `{"versions": [       `) }, oci.ErrTooLarge},
		"many versions": {"versions", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"versions":[{}`) // the client may have disconnected
			endless(t, w, ",{}")
		}, oci.ErrTooLarge},
		"deep JSON": {"versions", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"versions":`+strings.Repeat("[", 1<<18)+strings.Repeat("]", 1<<18)+"}")
		}, oci.ErrCorrupt},
		"deep JSON in what is not read": {"versions", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"x":`+strings.Repeat(`{"a":`, 1<<17)+"1"+strings.Repeat("}", 1<<17)+"}")
		}, oci.ErrCorrupt},
		"gzip bomb": {"versions", func(w http.ResponseWriter) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(bytes.Repeat([]byte(" "), 64<<20)) // writes to memory
			_ = z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(b.Bytes())
		}, oci.ErrTooLarge},
		"size that is a lie":        {"versions", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "99"); _, _ = io.WriteString(w, "{}") }, oci.ErrUnavailable},
		"SHA256SUMS without an end": {"sums", func(w http.ResponseWriter) { endless(t, w, "00  x.zip\n") }, oci.ErrTooLarge},
		"signature without an end":  {"sums.sig", func(w http.ResponseWriter) { endless(t, w, "sig") }, oci.ErrTooLarge},
		"package without an end":    {"dns.zip", func(w http.ResponseWriter) { w.Header().Set("Content-Length", fmt.Sprint(5<<30)) }, oci.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := httputil.NewSingleHostReverseProxy(origin(t))
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/"+test.path) {
					w.Header().Set("Content-Type", "application/json")
					test.answer(w)
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			r := &upstream.Registry{Client: client()}
			p := addr.Provider{Hostname: srv.Listener.Addr().String(), Namespace: "acme", Type: "dns"}
			_, err := r.Versions(t.Context(), p)
			if test.path != "versions" && err == nil {
				var pkg upstream.Package
				if pkg, err = r.Package(t.Context(), p, first, linux); err == nil {
					_, err = pkg.Open(t.Context())
				}
			}
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestGuardChecksAnswers has a listed origin whose answers name internal hosts.
func TestGuardChecksAnswers(t *testing.T) {
	first := must.Get(addr.ParseVersion("1.0.0"))(t)
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(inside.Close)
	for _, to := range []string{inside.URL + "/x", "https://169.254.169.254/latest/meta-data/", "https://[::ffff:0:a9fe:a9fe]/", "https://[64:ff9b::7f00:1]/"} {
		for _, field := range []string{"providers.v1", "shasums_url", "shasums_signature_url", "download_url"} {
			listed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				doc := map[string]string{"providers.v1": "/p/", "shasums_url": "/sums", "shasums_signature_url": "/sig", "download_url": "/zip"}
				doc[field] = to
				fmt.Fprintf(w, `{"providers.v1":%q,"os":"linux","arch":"amd64","filename":"x.zip","shasums_url":%q,"shasums_signature_url":%q,"download_url":%q}`,
					doc["providers.v1"], doc["shasums_url"], doc["shasums_signature_url"], doc["download_url"])
			}))
			t.Cleanup(listed.Close)
			host := listed.Listener.Addr().String()
			r := &upstream.Registry{Client: &upstream.Client{HTTP: guarded(host)}}
			pkg, err := r.Package(t.Context(), addr.Provider{Hostname: host, Namespace: "acme", Type: "dns"}, first, linux)
			if err == nil {
				_, err = pkg.Open(t.Context())
			}
			if !errors.Is(err, oci.ErrDenied) || asked {
				t.Errorf("%s is %s: %v; asked: %v", field, to, err, asked)
			}
		}
	}
}
