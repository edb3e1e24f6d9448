// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

func TestReadBody(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		header     map[string]string
		want       string // of the payload
		code       string // of the error
	}{
		{name: "plain", body: "abc", want: "abc"},
		{name: "unsigned", body: "abc", header: map[string]string{"X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD"}, want: "abc"},
		{name: "sha256", body: "123456789", header: map[string]string{"X-Amz-Checksum-Sha256": "FeKw08M4keuwt8J80p9VvgyRdNE5QTCDNfEZLaQyjbI="}, code: "BadDigest"},
		// The check values of the CRC catalogue for "123456789".
		{name: "crc32", body: "123456789", header: map[string]string{"X-Amz-Checksum-Crc32": "y/Q5Jg=="}, want: "123456789"},
		{name: "crc32c", body: "123456789", header: map[string]string{"X-Amz-Checksum-Crc32c": "4waSgw=="}, want: "123456789"},
		{name: "crc64nvme", body: "123456789", header: map[string]string{"X-Amz-Checksum-Crc64nvme": "rosUhgp5mIg="}, want: "123456789"},
		{name: "md5", body: "abc", header: map[string]string{"Content-MD5": "kAFQmDzST7DWlj99KOF/cg=="}, want: "abc"},
		{
			name: "chunks", body: "3;chunk-signature=aa\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
			header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, want: "abcde",
		},
		{
			name: "chunks with trailer", body: "9\r\n123456789\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n",
			header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Trailer": "x-amz-checksum-crc32"}, want: "123456789",
		},
		{
			name: "wrong trailer", body: "9\r\n123456780\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n",
			header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Trailer": "x-amz-checksum-crc32"}, code: "BadDigest",
		},
		{
			name: "missing trailer", body: "3\r\nabc\r\n0\r\n\r\n",
			header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Trailer": "x-amz-checksum-crc32"}, code: "BadDigest",
		},
		{name: "cut chunk", body: "9\r\n123", header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-X"}, code: "IncompleteBody"},
		{name: "cut between chunks", body: "3\r\nabc\r\n", header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-X"}, code: "IncompleteBody"},
		{name: "no chunk end", body: "3\r\nabcd\r\n0\r\n\r\n", header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-X"}, code: "IncompleteBody"},
		{name: "chunk size", body: "zz\r\nabc\r\n", header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-X"}, code: "IncompleteBody"},
		{name: "negative chunk size", body: "-1\r\nabc\r\n", header: map[string]string{"X-Amz-Content-Sha256": "STREAMING-X"}, code: "IncompleteBody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(tt.body))
			for k, v := range tt.header {
				r.Header.Set(k, v)
			}
			got, err := readBody(r, 100)
			if tt.code != "" {
				if e, ok := errors.AsType[*s3Error](err); !ok || e.code != tt.code {
					t.Errorf("got %q, %v; want %s", got, err, tt.code)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestReadBodyIsBounded(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("abcd"))
	if _, err := readBody(r, 3); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestParseKey(t *testing.T) {
	for _, p := range []Ref{
		{Repository: "localhost:5000/infra/state", Workspace: "default"},
		{Repository: "localhost:5000/infra/state", Workspace: "dev"},
		{Repository: "localhost:5000/infra/state", Workspace: "default", Remote: true},
		{Repository: "h/a", Workspace: "dev", Remote: true},
		{Repository: "h/state", Workspace: "state", Remote: true},
		{Repository: "h/{workspace}", Workspace: "dev"},
	} {
		for _, lock := range []bool{false, true} {
			want := object{Ref: p, lock: lock}
			key := p.objectKey()
			if lock {
				key += lockSuffix
			}
			if got, ok := parseKey(key); !ok || got != want {
				t.Errorf("%s: got %+v, %v; want %+v", key, got, ok, want)
			}
		}
	}
	for _, key := range []string{"", "state", "/state", "x", "env:/dev", "env:/dev/state", "env://h/a/state", "remote:/h/a/dev/h/b/remote", "remote:/h/a/dev/h/remote", "env:/dev/h/a/remote"} {
		if got, ok := parseKey(key); ok && got.Repository != "" {
			t.Errorf("%q is read as %+v", key, got)
		}
	}
}
