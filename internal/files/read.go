// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// ModeError means that other users may read a file with a secret.
type ModeError struct {
	Name string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s may be read by others (mode %04o), it must be 0600", e.Name, e.Mode)
}

// ReadPrivate reads up to limit bytes of a file that its owner alone may read, else a [*ModeError];
// Windows has no such modes.
func ReadPrivate(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, &ModeError{name, mode}
	}
	return readLimited(f, limit)
}

// ReadLimited reads a file of at most limit bytes.
func ReadLimited(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, limit)
}

func readLimited(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), limit)
	}
	return b, nil
}

// MaxSecret bounds a file with one secret, in bytes.
const MaxSecret = 64 << 10

// ReadSecret reads a file with a secret in hexadecimal.
func ReadSecret(name string) ([]byte, error) {
	b, err := ReadLimited(name, MaxSecret)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(string(bytes.TrimSpace(b)))
	if err != nil {
		return nil, fmt.Errorf("read %s: not a secret in hexadecimal", name)
	}
	return secret, nil
}
