// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// spoolPattern names files that are still being written.
const spoolPattern = ".part-*"

// Spool is a file read while it grows, by one writer and any readers. The last write waits for the
// digest of the whole: no reader gets all of a wrong blob. Readers learn of errors themselves.
type Spool struct {
	want   string // SHA-256 in hex
	file   *os.File
	sum    hash.Hash
	remove func() error // removes the directory; nil: it stays

	mu      sync.Mutex // guards the fields below
	path    string
	written int64
	good    int64         // number of bytes that readers may have
	ended   bool          // no more bytes follow
	err     error         // reason for an early end
	grown   chan struct{} // closed at the next change; nil: no reader waits
}

// NewSpool creates an empty file for a blob in dir, readable only by its owner.
func NewSpool(dir, sha256hex string) (*Spool, error) {
	f, err := os.CreateTemp(dir, spoolPattern)
	if err != nil {
		return nil, err
	}
	return &Spool{want: sha256hex, file: f, path: f.Name(), sum: sha256.New()}, nil
}

// TempSpool creates a spool in its own temporary directory.
func TempSpool(sha256hex string) (*Spool, error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return nil, err
	}
	s, err := NewSpool(dir, sha256hex)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	s.remove = remove
	return s, nil
}

// Write appends p. Everything before it becomes readable.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.sum.Write(p[:n])
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		s.good = s.written
		s.written += int64(n)
		s.wakeReaders()
	}
	return n, err
}

// Written returns how many bytes the writer has written.
func (s *Spool) Written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// wakeReaders notifies the waiting readers. The caller must hold mu.
func (s *Spool) wakeReaders() {
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

// Finish, called once, ends the writing, verifies the digest if cause is nil, and keeps the file if
// all is right.
func (s *Spool) Finish(cause error) error {
	if got := hex.EncodeToString(s.sum.Sum(nil)); cause == nil && got != s.want {
		cause = fmt.Errorf("got sha256:%s, expected sha256:%s: %w", got, s.want, oci.ErrCorrupt)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.err = cause
	if cause == nil {
		s.good = s.written
	}
	s.wakeReaders()
	if cause == nil {
		return nil
	}
	return errors.Join(cause, s.dropFile())
}

// moveTo moves a finished file, synced before: no crash leaves an incomplete one.
func (s *Spool) moveTo(path string) error {
	err := errors.Join(s.file.Sync(), s.file.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = os.Rename(s.path, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(s.path))
	}
	s.path = path
	return nil
}

// Open returns a reader's own handle, valid when the file is renamed or removed.
func (s *Spool) Open() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return os.Open(s.path)
}

// Discard removes a finished file. Its readers keep it open.
func (s *Spool) Discard() error { return s.dropFile() }

func (s *Spool) dropFile() error {
	err := errors.Join(s.file.Close(), os.Remove(s.path))
	if s.remove != nil {
		err = errors.Join(err, s.remove())
	}
	return err
}

// hasBytes reports whether bytes at offset can be read now, or are the first ones.
func (s *Spool) hasBytes(offset int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return offset == 0 || s.good > offset
}

// Readable waits for bytes after offset, and returns up to where one can read; io.EOF at the end.
// ctx is this reader's.
func (s *Spool) Readable(ctx context.Context, offset int64) (int64, error) {
	for {
		s.mu.Lock()
		good := s.good
		ended := s.ended
		err := s.err
		if s.grown == nil && !ended {
			s.grown = make(chan struct{})
		}
		grown := s.grown
		s.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case good > offset:
			return good, nil
		case ended:
			return good, io.EOF
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the registry: %w", context.Cause(ctx))
		}
	}
}
