// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/oci"
)

func readBody(r *http.Request, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	if r.ContentLength > 0 && r.ContentLength <= limit {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := copyBody(&buf, r, limit); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// copyBody writes the payload to w and verifies every hash that the client sent: in the header, or
// an aws-chunked body's trailer. After an error, the written bytes must not be used.
func copyBody(w io.Writer, r *http.Request, limit int64) (int64, error) {
	body := io.Reader(r.Body)
	trailer := http.Header{}
	if strings.HasPrefix(r.Header.Get(contentSHA256), streaming) {
		body = &chunkReader{r: bufio.NewReader(r.Body), trailer: trailer}
	}
	sums := newSums(r.Header)
	n, err := io.Copy(io.MultiWriter(append(sums.writers(), w)...), io.LimitReader(body, limit+1))
	if err != nil {
		return n, &s3Error{http.StatusBadRequest, "IncompleteBody", fmt.Sprintf("reading the body: %v", err)}
	}
	if n > limit {
		return n, fmt.Errorf("a body larger than %d bytes: %w", limit, oci.ErrTooLarge)
	}
	return n, sums.verify(trailer)
}

const (
	contentSHA256 = "X-Amz-Content-Sha256"
	streaming     = "STREAMING-" // value of that header for aws-chunked bodies
)

// checksum is one hash of the payload; want, the expected value, is empty if the trailer has it.
type checksum struct {
	hash.Hash
	header, want string
}

type checksums []*checksum

// S3's: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
func payloadHashes() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{
		"Content-Md5":              md5.New,
		"X-Amz-Content-Sha256":     sha256.New,
		"X-Amz-Checksum-Sha256":    sha256.New,
		"X-Amz-Checksum-Sha1":      sha1.New,
		"X-Amz-Checksum-Crc32":     func() hash.Hash { return crc32.NewIEEE() },
		"X-Amz-Checksum-Crc32c":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
		"X-Amz-Checksum-Crc64nvme": func() hash.Hash { return crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5)) },
	}
}

func newSums(h http.Header) checksums {
	var sums checksums
	trailer := http.CanonicalHeaderKey(strings.TrimSpace(h.Get("X-Amz-Trailer")))
	for name, algorithm := range payloadHashes() {
		v := h.Get(name)
		unsigned := name == contentSHA256 && (v == "UNSIGNED-PAYLOAD" || strings.HasPrefix(v, streaming))
		if (v != "" && !unsigned) || name == trailer {
			sums = append(sums, &checksum{header: name, want: v, Hash: algorithm()})
		}
	}
	return sums
}

func (c checksums) writers() []io.Writer {
	var w []io.Writer
	for _, s := range c {
		w = append(w, s)
	}
	return w
}

func (c checksums) verify(trailer http.Header) error {
	for _, s := range c {
		if s.want == "" {
			s.want = trailer.Get(s.header)
		}
		code := "BadDigest"
		got := base64.StdEncoding.EncodeToString(s.Sum(nil))
		if s.header == contentSHA256 {
			code = "XAmzContentSHA256Mismatch"
			got = hex.EncodeToString(s.Sum(nil))
		}
		if got != s.want {
			return &s3Error{http.StatusBadRequest, code, fmt.Sprintf("the body does not match its %s header: it was truncated or changed", s.header)}
		}
	}
	return nil
}

// chunkReader decodes aws-chunked: "<hex size>[;chunk-signature=…]", that many bytes, an empty
// line; after size 0, trailers:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
type chunkReader struct {
	r       *bufio.Reader
	left    int64
	started bool
	done    bool
	trailer http.Header
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.done {
			return 0, io.EOF
		}
		err := c.nextChunk()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// nextChunk reads the line before a chunk or, after the last chunk, the trailer.
func (c *chunkReader) nextChunk() error {
	if c.started {
		if line, err := c.readLine(); err != nil || line != "" {
			return errors.Join(errors.New("a chunk does not end with a line end"), err)
		}
	}
	c.started = true
	line, err := c.readLine()
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";")
	c.left, err = strconv.ParseInt(size, 16, 63)
	if err != nil || c.left < 0 {
		return fmt.Errorf("chunk size %q is not a number", size)
	}
	if c.left > 0 {
		return nil
	}
	c.done = true
	for {
		line, err := c.readLine()
		if err == io.EOF || err == nil && line == "" {
			return nil
		}
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(line, ":")
		c.trailer.Set(name, strings.TrimSpace(value))
	}
}

// readLine reads one line that fits into the reader's buffer.
func (c *chunkReader) readLine() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil && (err != io.EOF || len(line) == 0) {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
