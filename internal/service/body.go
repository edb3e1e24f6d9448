// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxBodies bounds the bodies of authorised requests that are read at the same time.
const maxBodies = 256

// slowBody is after how long a right is decided again: the token may have been revoked.
const slowBody = time.Second

// shutBody is the body of a request that is not authorised. Reading it is an error, until
// [OpenBody].
type shutBody struct {
	io.ReadCloser
	open    bool
	opened  time.Time
	again   func() error // decides again; nil: that is not needed
	refused error        // by again
	release func()       // releases the slot that reading takes in the limiter; nil: no slot is taken
}

// shutKey is the context key of the request's shutBody, whatever wraps the body.
type shutKey struct{}

var errShut = errors.New("the body of a request was read before its right was decided")

func (b *shutBody) Read(p []byte) (int, error) {
	if !b.open {
		return 0, errShut
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && b.again != nil && time.Since(b.opened) > slowBody {
		if b.refused = b.again(); b.refused != nil {
			err = b.refused
		}
	}
	return n, err
}

// closeBodyOf returns the request with its body closed; done releases its slot. The original keeps
// its body, by whose type net/http decides to read what is left.
func closeBodyOf(r *http.Request) (_ *http.Request, done func()) {
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

// DecideAgain has again called once the body has arrived, if that took long.
func DecideAgain(r *http.Request, again func() error) {
	if b, ok := r.Context().Value(shutKey{}).(*shutBody); ok {
		b.again = again
	}
}

// refusalOf returns why a request was refused whose right was decided again, or else err.
func refusalOf(r *http.Request, err error) error {
	if b, ok := r.Context().Value(shutKey{}).(*shutBody); ok && b.refused != nil {
		return b.refused
	}
	return err
}

// OpenBody lets a body be read that authorising needs, bounded by the handler.
func OpenBody(r *http.Request) {
	if b, ok := r.Context().Value(shutKey{}).(*shutBody); ok {
		b.open = true
		b.opened = time.Now()
	}
}

// OpenBody lets an authorised body be read, if the limiter has a slot.
func (k *Kit) OpenBody(r *http.Request) error {
	b, ok := r.Context().Value(shutKey{}).(*shutBody)
	if !ok || b.open {
		return nil
	}
	release, ok := k.bodies.Acquire(k.Client(r), 1)
	if !ok {
		return TooMany("uploads")
	}
	b.release = release
	b.open = true
	b.opened = time.Now()
	return nil
}
