// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mustSpool(t *testing.T, dir, sha256hex string) *Spool {
	t.Helper()
	return must.Get(NewSpool(dir, sha256hex))(t)
}

func mustWrite(t *testing.T, w io.Writer, text string) {
	t.Helper()
	must.Get(io.WriteString(w, text))(t)
}

// readSpool reads everything that a reader gets, in pieces of the given size.
func readSpool(ctx context.Context, s *Spool, piece int) (string, error) {
	f, err := s.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readSpoolFile(ctx, s, f, piece)
}

// readSpoolFile reads with a handle of before: a failed spool has no file any more.
func readSpoolFile(ctx context.Context, s *Spool, f *os.File, piece int) (string, error) {
	var got strings.Builder
	for {
		good, err := s.Readable(ctx, int64(got.Len()))
		if err == io.EOF {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), err
		}
		n, err := io.CopyN(&got, f, min(int64(piece), good-int64(got.Len())))
		if err != nil || n == 0 {
			return got.String(), err
		}
	}
}

// TestSpool has readers of different paces follow one writer.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	want := strings.Repeat("0123456789", 10_000)
	s := mustSpool(t, dir, sumOf(want))
	var readers sync.WaitGroup
	for i := range 20 {
		readers.Go(func() {
			if got, err := readSpool(t.Context(), s, 1+i*997); err != nil || got != want {
				t.Errorf("reader %d: %d of %d bytes, %v", i, len(got), len(want), err)
			}
		})
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.Readable(gone, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that left: %v", err)
	}
	for part := range 10 {
		mustWrite(t, s, want[part*10_000:(part+1)*10_000])
	}
	must.Succeed(t, s.Finish(nil))
	readers.Wait()
	path := filepath.Join(dir, "kept")
	must.Succeed(t, s.moveTo(path))
	if got, err := readSpool(t.Context(), s, 5000); err != nil || got != want {
		t.Errorf("after it was kept: %d of %d bytes, %v", len(got), len(want), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

// TestSpoolWrong: no reader gets all of a wrong or truncated blob, and no file is left.
func TestSpoolWrong(t *testing.T) {
	cut := errors.New("cut")
	for name, tt := range map[string]struct{ cause, want error }{
		"digest": {nil, oci.ErrCorrupt},
		"cut":    {cut, cut},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustSpool(t, dir, sumOf("something else"))
			mustWrite(t, s, "the first, ")
			mustWrite(t, s, "the last")
			if good, err := s.Readable(t.Context(), 0); err != nil || good != int64(len("the first, ")) {
				t.Errorf("before the verdict %d bytes, %v", good, err)
			}
			if err := s.Finish(tt.cause); !errors.Is(err, tt.want) {
				t.Errorf("finish: %v, want %v", err, tt.want)
			}
			if _, err := s.Readable(t.Context(), 0); !errors.Is(err, tt.want) {
				t.Errorf("a reader hears %v, want %v", err, tt.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
