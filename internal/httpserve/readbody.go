// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"bytes"
	"net/http"
)

// ReadBody reads a body of at most limit bytes, else [*http.MaxBytesError]: of one declared longer
// it reads nothing. A body of known length is held in memory once.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom then never copies
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	return b.Bytes(), err
}
