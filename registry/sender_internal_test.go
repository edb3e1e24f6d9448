// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

// sent delivers to a client that reads 64 KiB and pauses.
func sent(t *testing.T, src *source, pause time.Duration) ([]byte, error) {
	t.Helper()
	here := ocitest.OneConn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		http.ServeContent(newSender(w, r, stallTimeout), r, "", time.Time{}, src)
	}))
	must.Get(io.WriteString(here, "GET / HTTP/1.1\r\nHost: okara.test\r\n\r\n"))(t)
	resp := must.Get(http.ReadResponse(bufio.NewReader(here), nil))(t)
	defer here.Close()
	var got bytes.Buffer
	for {
		time.Sleep(pause)
		if _, err := io.CopyN(&got, resp.Body, service.PieceSize); err != nil {
			if errors.Is(err, io.EOF) && int64(got.Len()) == resp.ContentLength {
				err = nil
			}
			return got.Bytes(), err
		}
	}
}

// TestSlowReader has a client that needs an hour and gets every byte, in each
// way of sending, and one that stalls.
//
// Shows: registries 16 | a time limit that cuts downloads | boring-registry
func TestSlowReader(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	d := oci.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content))}
	file := filepath.Join(t.TempDir(), "blob")
	must.Succeed(t, os.WriteFile(file, content, 0o600))
	for name, from := range map[string]func() *source{
		"memory": func() *source { return &source{ctx: t.Context(), d: d, small: content} },
		"file":   func() *source { return &source{ctx: t.Context(), d: d, file: mustOpen(file)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := from()
				defer src.Close()
				start := time.Now()
				got, err := sent(t, src, stallTimeout-time.Second)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d of %d bytes, %v", len(got), len(content), err)
				}
				if took := time.Since(start); took < time.Hour {
					t.Errorf("it took only %s", took)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				src := from()
				defer src.Close()
				if got, err := sent(t, src, 3*stallTimeout); err == nil {
					t.Errorf("a stalled client was waited for; it got %d bytes", len(got))
				}
			})
		})
	}
}

func mustOpen(name string) *os.File {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	return f
}
