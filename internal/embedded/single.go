// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// singlePost accepts a blob in the POST (OCI distribution specification 1.1, "Single POST"), which
// the library would answer with 202, as the PUT that would follow.
type singlePost struct{ http.Handler }

func (s singlePost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	d := query.Get("digest")
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/blobs/uploads/") || d == "" || query.Has("mount") {
		s.Handler.ServeHTTP(w, r)
		return
	}
	begin := r.Clone(r.Context())
	begin.URL.RawQuery = ""
	begin.RequestURI = r.URL.Path
	begin.Body = http.NoBody
	begin.ContentLength = 0
	var begun answer
	s.Handler.ServeHTTP(&begun, begin)
	to, err := url.Parse(begun.Header().Get("Location"))
	if begun.status != http.StatusAccepted || err != nil {
		begun.send(w)
		return
	}
	end := r.Clone(r.Context())
	end.Method = http.MethodPut
	in := to.Query()
	in.Set("digest", d)
	end.URL.Path = to.Path
	end.URL.RawPath = to.RawPath
	end.URL.RawQuery = in.Encode()
	end.RequestURI = end.URL.RequestURI()
	s.Handler.ServeHTTP(w, end)
}

// answer records an answer of the library, without body or a refusal.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header())
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = io.Copy(w, &a.body) // the client may have disconnected
}
