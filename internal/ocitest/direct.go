// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"net/http"
	"net/http/httptest"
	"time"
)

// Direct is a transport that calls a handler, without connection, for synctest bubbles.
type Direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.Host = r.URL.RequestURI(), r.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat)) // of the bubble
	return resp, nil
}
