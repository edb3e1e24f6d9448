// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
)

// maxResumes is how often a lost connection to the registry is resumed unnoticed by the client.
const maxResumes = 3

// source is a blob in a registry as an [io.ReadSeeker] that buffers nothing. A read opens it at the
// current offset, or again where the connection broke. Read from the start, it is hashed, and the
// last chunk held back until the hash is verified. From a local file it is read directly.
//
// ctx is that of the request, which a source does not outlive: Read and Seek cannot take one.
type source struct {
	ctx   context.Context
	repo  *oci.Repo
	d     oci.Descriptor
	small []byte // the whole blob, if it is known
	raw   bool   // the reader checks the digest itself

	file  *os.File     // the blob, if it is on this machine
	spool *cache.Spool // nil: the file is complete

	body    io.ReadCloser
	at      int64 // offset of the next read
	bodyAt  int64 // offset of body
	resumes int
	sum     hash.Hash // nil: reading did not start at offset 0
	err     error     // permanent read error
}

// openAt starts reading at an offset, or returns where the registry redirects, if redirect is set.
func (s *source) openAt(offset int64, redirect bool) (*url.URL, error) {
	s.close()
	body, to, err := s.requestFrom(offset, redirect)
	if err != nil || to != nil {
		return to, err
	}
	s.beginBody(body, offset)
	s.at = offset
	return nil, nil
}

func (s *source) requestFrom(offset int64, redirect bool) (body io.ReadCloser, to *url.URL, err error) {
	ctx, answered := answerWithin(s.ctx, openTimeout)
	if redirect {
		body, to, err = s.repo.OpenOrRedirect(ctx, s.d, offset)
	} else {
		body, err = s.repo.OpenAt(ctx, s.d, offset)
	}
	return body, to, answered(err)
}

// beginBody makes body, which starts at offset, the current reader.
func (s *source) beginBody(body io.ReadCloser, offset int64) {
	s.body = body
	s.bodyAt = offset
	if offset == 0 && !s.raw {
		s.sum = sha256.New()
	}
}

// Seek sets the offset of the next read; nothing is opened or closed.
func (s *source) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.d.Size
	}
	if offset < 0 || offset > s.d.Size {
		return s.at, fmt.Errorf("seek to %d of %d", offset, s.d.Size)
	}
	s.at = offset
	return offset, nil
}

func (s *source) Read(p []byte) (int, error) {
	if s.at >= s.d.Size {
		return 0, io.EOF
	}
	if s.small != nil {
		n, err := bytes.NewReader(s.small).ReadAt(p, s.at)
		s.at += int64(n)
		return n, err
	}
	if f, left := s.chunk(); f != nil {
		n, err := f.Read(p[:min(int64(len(p)), left)])
		s.at += int64(n)
		if err == nil {
			return n, nil
		}
		s.leaveFile(err)
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.readBlob(p)
	if err != nil {
		s.err = err
		return 0, err
	}
	return n, nil
}

// chunk returns the file that has the next bytes, if any, at them, and how many can be read now.
func (s *source) chunk() (*os.File, int64) {
	if s.file == nil || s.err != nil {
		return nil, 0
	}
	end := s.d.Size
	var err error
	if s.spool != nil {
		end, err = s.spool.Readable(s.ctx, s.at)
	}
	if err == nil {
		_, err = s.file.Seek(s.at, io.SeekStart)
	}
	if err != nil {
		s.leaveFile(err)
		return nil, 0
	}
	return s.file, end - s.at
}

// leaveFile continues with the registry, unless cause is a wrong digest or the end of the request.
// To hash all of the blob it is read again, unless the reader verifies the digest itself.
func (s *source) leaveFile(cause error) {
	s.closeFile()
	if errors.Is(cause, oci.ErrCorrupt) || s.ctx.Err() != nil {
		s.err = fmt.Errorf("read %s: %w", s.d.Digest, cause)
		return
	}
	again := int64(0)
	if s.raw {
		again = s.at
	}
	body, _, err := s.requestFrom(again, false)
	if err != nil {
		s.err = err
		return
	}
	if s.beginBody(body, again); s.raw {
		return
	}
	if _, s.err = io.CopyN(s.sum, body, s.at); s.err == nil {
		s.bodyAt = s.at
	}
}

// readBlob returns at least one byte or an error.
func (s *source) readBlob(p []byte) (int, error) {
	for {
		if s.body == nil || s.bodyAt != s.at {
			if s.bodyAt != s.at {
				s.sum = nil
			}
			if err := s.reopen(); err != nil {
				return 0, err
			}
		}
		n, err := s.body.Read(p[:min(int64(len(p)), s.d.Size-s.at)])
		if n > 0 {
			s.at += int64(n)
			s.bodyAt = s.at
			return n, s.checkHash(p[:n])
		}
		if err == nil {
			continue
		}
		if errors.Is(err, oci.ErrCorrupt) || s.ctx.Err() != nil || s.resumes == maxResumes {
			return 0, fmt.Errorf("read %s: %w", s.d.Digest, err)
		}
		s.resumes++
		s.close()
	}
}

// reopen opens the blob at the offset of the next read and keeps the hash state.
func (s *source) reopen() error {
	s.close()
	body, _, err := s.requestFrom(s.at, false)
	if err != nil {
		return err
	}
	s.beginBody(body, s.at)
	return nil
}

// checkHash adds p to the hash and verifies the hash when the blob is complete.
func (s *source) checkHash(p []byte) error {
	if s.sum == nil {
		return nil
	}
	s.sum.Write(p)
	if s.at < s.d.Size {
		return nil
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.d.Digest.Encoded() {
		return fmt.Errorf("the registry sent sha256:%s for %s: %w", got, s.d.Digest, oci.ErrCorrupt)
	}
	return nil
}

func (s *source) close() {
	if s.body != nil {
		_ = s.body.Close() // only read
		s.body = nil
	}
}

func (s *source) closeFile() {
	if s.file != nil {
		_ = s.file.Close() // only read
		s.file = nil
		s.spool = nil
	}
}

// Close closes the connection to the registry.
func (s *source) Close() error {
	s.close()
	s.closeFile()
	return nil
}
