// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
)

// TestReceive tells a broken upload from a full disk.
func TestReceive(t *testing.T) {
	closed := must.Get(os.Create(filepath.Join(t.TempDir(), "upload")))(t)
	must.Succeed(t, closed.Close())
	tests := map[string]struct {
		body   io.Reader
		to     io.Writer
		status int // 0: no own answer, so 500
	}{
		"whole":        {strings.NewReader("1234"), io.Discard, 0},
		"too large":    {strings.NewReader("12345"), io.Discard, http.StatusRequestEntityTooLarge},
		"broken off":   {iotest.ErrReader(io.ErrUnexpectedEOF), io.Discard, http.StatusBadRequest},
		"nowhere left": {strings.NewReader("1234"), closed, 0},
	}
	for name, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", tt.body)
		r.ContentLength = -1
		_, _, err := receiveBody(r, tt.to, 4)
		own, _ := errors.AsType[*service.Error](err)
		if own == nil && tt.status != 0 || own != nil && own.Status != tt.status || (err == nil) != (name == "whole") {
			t.Errorf("%s: %v, want status %d", name, err, tt.status)
		}
	}
}

// TestPublishError: a full disk is no publisher's fault.
func TestPublishError(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/tmp/okara", Err: syscall.ENOSPC}
	if _, blamed := errors.AsType[*service.Error](publishError(fmt.Errorf("unpack: %w", full))); blamed {
		t.Errorf("%v is an answer to the client", full)
	}
}

// FuzzReceipt accepts signed receipts, until they expire.
func FuzzReceipt(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	keys := must.Get(keyring.New([]keyring.Key{testKey(1)}))(f)
	want := upload{Repository: "r", File: "f.zip", Digest: digest.FromString("x"), Size: 1, H1: "h1:x", Expires: now.Unix() + 1}
	good := must.Get(newReceipt(keys, want))(f)
	old := want
	old.Expires = now.Unix()
	expired := must.Get(newReceipt(keys, old))(f)
	for _, receipt := range []string{good, expired, good + "=", good[:len(good)-1], "a.b.c", ".."} {
		f.Add(receipt)
	}
	f.Fuzz(func(t *testing.T, receipt string) {
		u, err := readReceipt(keys, receipt, now)
		if (err == nil) != (receipt == good) || err == nil && u != want {
			t.Errorf("%q is read as %+v, %v", receipt, u, err)
		}
	})
}
