// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"

	"github.com/seed-141914ff/okara/oci"
)

// maxObjects bounds the objects of a pack, each of which takes memory during indexing.
const maxObjects = 1_000_000

// checkPack reads a pack (gitformat-pack, version 2) and bounds the total size
// of its objects after decompression and delta resolution, without resolving
// any: a few kilobytes of deltas can stand for any number of bytes.
func checkPack(from io.Reader, limit int64) error {
	r := bufio.NewReader(from)
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:4]) != "PACK" {
		return badPack("no header")
	}
	count := binary.BigEndian.Uint32(head[8:])
	if count > maxObjects {
		return fmt.Errorf("a pack of %d objects: %w", count, oci.ErrTooLarge)
	}
	s := packSum{r: r, left: limit}
	for range count {
		if err := s.object(); err != nil {
			return err
		}
	}
	return nil
}

func badPack(why string) error { return fmt.Errorf("invalid pack: %s: %w", why, oci.ErrCorrupt) }

// packSum sums the sizes of the objects of a pack.
type packSum struct {
	r     *bufio.Reader
	inner io.ReadCloser // reads compressed data; nil before the first
	left  int64
}

// Types of objects in a pack that are deltas of other objects.
const (
	ofsDelta = 6
	refDelta = 7
)

func (s *packSum) object() error {
	kind, size, err := s.readHeader()
	if err != nil {
		return err
	}
	switch kind {
	case ofsDelta:
		_, err = binary.ReadUvarint(s.r) // a different encoding of the same length
	case refDelta:
		_, err = s.r.Discard(20)
	}
	if err != nil {
		return badPack("it ends within an object")
	}
	if err := s.takeBytes(size); err != nil {
		return err
	}
	return s.content(kind, size)
}

// readHeader reads the type and the size at the start of an object.
func (s *packSum) readHeader() (kind byte, size uint64, err error) {
	b, err := s.r.ReadByte()
	if err != nil {
		return 0, 0, badPack("truncated before its last object")
	}
	kind = b >> 4 & 7
	size = uint64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = s.r.ReadByte(); err != nil || shift > 53 {
			return 0, 0, badPack("an object has no size")
		}
		size |= uint64(b&0x7f) << shift
	}
	return kind, size, nil
}

func (s *packSum) takeBytes(n uint64) error {
	if n > uint64(s.left) {
		return fmt.Errorf("the repository exceeds the allowed size when unpacked: %w", oci.ErrTooLarge)
	}
	s.left -= int64(n)
	return nil
}

// content reads an object to its end. For a delta it adds the size of the result.
func (s *packSum) content(kind byte, size uint64) error {
	if err := s.inflate(); err != nil {
		return badPack("an object is not compressed")
	}
	in := bufio.NewReader(io.LimitReader(s.inner, int64(size)+1))
	n := int64(0)
	if kind == ofsDelta || kind == refDelta {
		target, head, err := deltaTarget(in)
		if err != nil {
			return badPack("a delta has no sizes")
		}
		if err := s.takeBytes(target); err != nil {
			return err
		}
		n = head
	}
	if rest, err := io.Copy(io.Discard, in); err != nil || n+rest != int64(size) {
		return badPack("object size mismatch")
	}
	return nil
}

func (s *packSum) inflate() (err error) {
	if s.inner == nil {
		s.inner, err = zlib.NewReader(s.r)
		return err
	}
	reset, ok := s.inner.(zlib.Resetter)
	if !ok {
		return errors.New("cannot read again from the beginning")
	}
	return reset.Reset(s.r, nil)
}

// deltaTarget reads the two sizes at the start of a delta, of its base and of
// its result. It returns the second, and the length of both in bytes.
func deltaTarget(in *bufio.Reader) (target uint64, n int64, err error) {
	c := &countedBytes{r: in}
	if _, err = binary.ReadUvarint(c); err != nil {
		return 0, 0, err
	}
	target, err = binary.ReadUvarint(c)
	return target, c.n, err
}

type countedBytes struct {
	r io.ByteReader
	n int64
}

func (c *countedBytes) ReadByte() (byte, error) {
	c.n++
	return c.r.ReadByte()
}
