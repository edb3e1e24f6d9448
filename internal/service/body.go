// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// maxBodies bounds the bodies of authorised requests that are read at once.
const maxBodies = 256

// shutBody is the body of a request about which nothing has been decided yet.
// Whatever reads it by accident, a form parser for one, gets an error and not
// one byte. [OpenBody] opens it.
type shutBody struct {
	io.ReadCloser
	open    bool
	release func() // gives back the place that reading it takes; nil: it has none
}

// shutKey is where the request keeps its shutBody, whatever is put around that.
type shutKey struct{}

var errShut = errors.New("the body of a request was read before its right was decided")

func (b *shutBody) Read(p []byte) (int, error) {
	if !b.open {
		return 0, errShut
	}
	return b.ReadCloser.Read(p)
}

// shut returns the request with its body closed. done gives back the place that
// reading it took. The request of net/http keeps its own body, by whose type it
// decides whether to read what nobody wanted.
func shut(r *http.Request) (_ *http.Request, done func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	b := &shutBody{ReadCloser: r.Body}
	r = r.WithContext(context.WithValue(r.Context(), shutKey{}, b))
	r.Body = b
	return r, func() {
		b.open = false
		if b.release != nil {
			b.release()
		}
	}
}

// OpenBody lets the body of a request be read whose right is in the body itself.
// The handler bounds how much.
func OpenBody(r *http.Request) {
	if b, ok := r.Context().Value(shutKey{}).(*shutBody); ok {
		b.open = true
	}
}

// OpenBody lets the body of a request be read, once its right is decided, if there
// is a place for one more.
func (k *Kit) OpenBody(r *http.Request) error {
	b, ok := r.Context().Value(shutKey{}).(*shutBody)
	if !ok || b.open {
		return nil
	}
	client := k.Client(r)
	if !k.bodies.Acquire(client) {
		return TooMany("uploads")
	}
	b.release = func() { k.bodies.Release(client) }
	b.open = true
	return nil
}
