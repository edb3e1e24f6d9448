// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sync/singleflight"
)

// ErrDamaged means that the bytes of a stored blob do not match its digest.
var ErrDamaged = errors.New("the stored blob is damaged")

// checks remembers which files were found whole or damaged, by size, time and path.
type checks struct {
	log    *slog.Logger
	flight singleflight.Group
	disk   chan struct{} // bounds how many files are read concurrently

	mu         sync.Mutex
	young, old map[string]checked // by digest; old is dropped when young is full
}

type checked struct {
	info  os.FileInfo
	whole bool
}

// maxChecked bounds each of the two maps; an entry takes about 300 bytes.
const maxChecked = 1 << 15

func newChecks(l *slog.Logger) *checks {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &checks{log: l, disk: make(chan struct{}, 4), young: map[string]checked{}}
}

// checkWhole returns nil if a file matches its digest, read at most once.
func (c *checks) checkWhole(ctx context.Context, f *os.File, digest string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if known, ok := c.knownCheck(digest, info); ok {
		return damageError(digest, known)
	}
	name := f.Name()
	// Several callers may wait for one file; it is read once, even if the first caller gives up.
	result := c.flight.DoChan(digest, func() (any, error) {
		c.disk <- struct{}{}
		defer func() { <-c.disk }()
		return nil, c.checkFile(name, digest)
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *checks) checkFile(name, digest string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		c.log.Error("a blob of the built-in registry cannot be read", "digest", "sha256:"+digest, "file", name, "error", err)
		return fmt.Errorf("sha256:%s: %w", digest, errors.Join(ErrDamaged, err))
	}
	whole := hex.EncodeToString(h.Sum(nil)) == digest
	if !whole {
		c.log.Error("a blob of the built-in registry is damaged", "digest", "sha256:"+digest, "file", name, "size", info.Size())
	}
	c.addChecked(digest, checked{info, whole})
	return damageError(digest, whole)
}

// isDamaged reports whether a file was found damaged, or is empty, as after a loss of power.
func (c *checks) isDamaged(name, digest string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	whole, ok := c.knownCheck(digest, info)
	return ok && !whole || info.Size() == 0 && digest != hex.EncodeToString(sha256.New().Sum(nil))
}

func damageError(digest string, whole bool) error {
	if whole {
		return nil
	}
	return fmt.Errorf("sha256:%s: %w", digest, ErrDamaged)
}

func (c *checks) addChecked(digest string, v checked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putChecked(digest, v)
}

func (c *checks) putChecked(digest string, v checked) {
	if len(c.young) >= maxChecked {
		c.old = c.young
		c.young = map[string]checked{}
	}
	c.young[digest] = v
}

// knownCheck returns the result for a file that is unchanged since its check.
func (c *checks) knownCheck(digest string, info os.FileInfo) (whole, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.young[digest]
	if !ok {
		if v, ok = c.old[digest]; ok {
			c.putChecked(digest, v)
		}
	}
	if !ok || v.info.Size() != info.Size() || !v.info.ModTime().Equal(info.ModTime()) || !os.SameFile(v.info, info) {
		return false, false
	}
	return v.whole, true
}

// recordTouch records that this package changed the time of a file.
func (c *checks) recordTouch(digest string, before, after os.FileInfo) {
	if whole, ok := c.knownCheck(digest, before); ok {
		c.addChecked(digest, checked{after, whole})
	}
}
