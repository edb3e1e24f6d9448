// SPDX-License-Identifier: Apache-2.0

package httpserve_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-141914ff/okara/internal/httpserve"
)

func TestReadBody(t *testing.T) {
	unread := iotest.ErrReader(errors.New("it was read"))
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
		large  bool
	}{
		{name: "as long as it says", body: strings.NewReader("12345678"), length: 8, want: "12345678"},
		{name: "of unknown length", body: strings.NewReader("12345678"), length: -1, want: "12345678"},
		{name: "none", body: strings.NewReader(""), want: ""},
		{name: "one byte more", body: strings.NewReader("123456789"), length: -1, large: true},
		{name: "says that it has more", body: unread, length: 9, large: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPut, "/", tt.body)
			r.ContentLength = tt.length
			b, err := httpserve.ReadBody(httptest.NewRecorder(), r, 8)
			if _, large := errors.AsType[*http.MaxBytesError](err); large != tt.large || err != nil && !large {
				t.Fatalf("error %v, too large: want %t", err, tt.large)
			}
			if !tt.large && string(b) != tt.want {
				t.Errorf("%q, want %q", b, tt.want)
			}
		})
	}
}
