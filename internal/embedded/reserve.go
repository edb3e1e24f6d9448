// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/distribution/distribution/v3/registry/storage/driver"
)

// ErrFull means that only requests that may use the reserve have disk space.
var ErrFull = errors.New("the disk is full")

// reserve is a file that occupies disk space while there is some. When the disk
// is full, for any reason, the file shrinks by what the vital repositories
// write. Until it has its full size again, all other writes are refused.
type reserve struct {
	dir, file string
	size      int64 // full size of the file
	log       *slog.Logger

	mu     sync.Mutex // guards the fields below
	have   int64      // current size of the file
	warned bool       // it was logged that the disk is full
}

const (
	// headroom is left free by uploads, for their links and manifests.
	headroom = 256 << 10
	// slice is the minimum that is cut from the file at once.
	slice = 512 << 10
	// reserveFile does not belong to the library, which ignores it.
	reserveFile = ".okara-reserve"
)

// openReserve makes or opens the file; without space for it the disk is full.
func openReserve(dir string, size int64, log *slog.Logger) (*reserve, error) {
	r := &reserve{dir: dir, file: filepath.Join(dir, reserveFile), size: size, log: log}
	info, err := os.Stat(r.file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Size() > size:
		if err := os.Truncate(r.file, size); err != nil {
			return nil, err
		}
		r.have = size
	default:
		r.have = info.Size()
	}
	if size == 0 {
		return r, removeIfThere(r.file)
	}
	_ = r.checkSpace() // it logs that the disk is full
	return r, nil
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// admitUpload permits writing n bytes of a blob, or returns that the disk is full.
func (r *reserve) admitUpload(ctx context.Context, n int64) error { return r.admit(ctx, n, headroom) }

func (r *reserve) admit(ctx context.Context, n, leave int64) error {
	if r.size == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, free, ok := Space(r.dir)
	if !ok {
		return nil
	}
	it := changeOf(ctx)
	if it.vital {
		if lack := n + headroom - free; lack > 0 {
			r.shrinkReserve(lack)
		}
		return nil
	}
	free = r.refill(free)
	if r.have < r.size || free < n+leave {
		it.full.Store(true)
		r.warn(free)
		return fullError()
	}
	return nil
}

// shrinkReserve frees disk space by shrinking the file.
func (r *reserve) shrinkReserve(lack int64) {
	to := max(0, r.have-max(lack, slice))
	if to == r.have || os.Truncate(r.file, to) != nil {
		return // the write reports that there is no space
	}
	r.have = to
	_, free, _ := Space(r.dir)
	r.warn(free)
}

// freeForRetry frees space for a vital request whose write failed, and reports whether a retry
// makes sense: against a quota shrinking may not help.
func (r *reserve) freeForRetry(ctx context.Context) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, free, _ := Space(r.dir)
	r.warn(free)
	it := changeOf(ctx)
	it.full.Store(true)
	if !it.vital || r.have == 0 {
		return false
	}
	before := r.have
	r.shrinkReserve(slice)
	return r.have < before
}

// refill restores the file's size if there is more than enough space, and returns what is free.
func (r *reserve) refill(free int64) int64 {
	if lack := r.size - r.have; lack > 0 && free >= lack+2*headroom {
		if err := r.grow(lack); err == nil {
			r.have += lack
			free -= lack
		}
	}
	if r.warned && r.have == r.size && free >= headroom {
		r.warned = false
		r.log.Info("the disk of the built-in registry has space again", "folder", r.dir, "free", free)
	}
	return free
}

// grow appends random bytes, which no file system can compress.
func (r *reserve) grow(lack int64) (err error) {
	f, err := os.OpenFile(r.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyN(f, rand.Reader, lack); err != nil {
		return errors.Join(err, f.Truncate(r.have))
	}
	return nil
}

func (r *reserve) warn(free int64) {
	if !r.warned {
		r.warned = true
		r.log.Error("the disk of the built-in registry is full (no space left on device): free space on it; until then only locks and small states are written, from its reserve",
			"folder", r.dir, "free", free, "reserve", r.have)
	}
}

// checkSpace returns [ErrFull] if only vital requests may write.
func (r *reserve) checkSpace() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, free, ok := Space(r.dir)
	if !ok {
		return nil
	}
	if r.size > 0 {
		free = r.refill(free)
	}
	if r.have == r.size && free >= headroom {
		return nil
	}
	r.warn(free)
	return fmt.Errorf("%w: %d bytes are free", ErrFull, free)
}

// CheckSpace returns [ErrFull] if the disk is full but for the reserve. Memory never is.
func (r *Registry) CheckSpace() error {
	if r.store == nil {
		return nil
	}
	return r.store.reserve.checkSpace()
}

// isDiskFull reports whether an error means that a disk or a quota is full.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func fullError() error { return driver.Error{DriverName: driverName, Detail: syscall.ENOSPC} }
