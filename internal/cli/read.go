// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// maxLine bounds what ReadLine reads, in bytes.
const maxLine = 64 << 10

// ReadLine reads up to a line end byte by byte, so that the next reader finds everything
// that follows.
func ReadLine(in io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxLine; {
		n, err := in.Read(b)
		if n == 1 {
			if b[0] == '\n' {
				return strings.TrimSpace(string(line)), nil
			}
			line = append(line, b[0])
		}
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return strings.TrimSpace(string(line)), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", errors.New("the line is too long")
}

// maxToken bounds a token, in bytes.
const maxToken = 32 << 10

// ReadToken reads the one token in a file, or in standard input for "-". It is "" if no
// file is named.
func ReadToken(in io.Reader, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	if file != "-" {
		b, err := files.ReadPrivate(file, maxToken)
		if _, open := errors.AsType[*files.ModeError](err); open {
			return "", err
		}
		if err != nil {
			return "", UsageError("%w", err)
		}
		in = bytes.NewReader(b)
	}
	b, err := io.ReadAll(io.LimitReader(in, maxToken+1))
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the token: %w", err)
	case token == "" || len(b) > maxToken || !credentials.IsToken(token):
		return "", UsageError("--token-file %s must contain a single token", file)
	}
	return token, nil
}

// ReadLimited reads a file of at most limit bytes; a larger one is [oci.ErrTooLarge].
func ReadLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %s: %w", path, text.Size(limit), oci.ErrTooLarge)
	}
	return b, nil
}
