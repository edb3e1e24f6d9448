// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"net/http"
	"net/http/httptest"
)

// Direct is a transport that calls a handler, without connection, for synctest bubbles.
type Direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.Host = r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}
