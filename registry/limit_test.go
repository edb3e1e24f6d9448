// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// endless is a body of spaces, which JSON allows anywhere. It counts the bytes read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil
}

// TestBodyLimits sends more than each route accepts: 413, and nothing is done.
func TestBodyLimits(t *testing.T) {
	f := newFront(t, nil)
	for _, tt := range []struct {
		method, path string
		limit        int64
	}{
		{http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", 512 << 20},
		{http.MethodPost, "/v1/modules/net/vpc/aws/1.0.0/status", 16 << 10},
		{http.MethodPost, "/v1/modules/net/vpc/aws/1.0.0/signatures", 128 << 10},
		{http.MethodPost, "/v1/providers/acme/dns/1.0.0", 1 << 20},
		{http.MethodPost, "/v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_linux_amd64.zip", 1 << 10},
		{http.MethodPost, "/v1/providers/acme/dns/1.0.0/status", 16 << 10},
		{http.MethodPost, "/v1/providers/acme/dns/1.0.0/signatures", 128 << 10},
	} {
		r := must.Fixed(http.NewRequestWithContext(t.Context(), tt.method, f.URL+tt.path, io.LimitReader(&endless{}, tt.limit+1)))
		if tt.limit > 64<<20 { // announced, so that it is not sent
			r.ContentLength = tt.limit + 1
		}
		resp := must.Fixed(http.DefaultClient.Do(r))
		body := must.Fixed(io.ReadAll(resp.Body))
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s %s: %d %s, want 413", tt.method, tt.path, resp.StatusCode, body)
		}
	}
}
