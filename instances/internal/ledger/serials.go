// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
)

// serials remembers the highest serial of the ledger in case its registry is set back: in
// a file if there is a folder. The ledger's lock guards it.
type serials struct {
	file    string // "": none
	known   known
	written known
	saving  sync.Mutex // held while writing the file; taken before the ledger's lock
}

func newSerials(folder string) (*serials, error) {
	if folder == "" {
		return &serials{}, nil
	}
	m := &serials{file: filepath.Join(folder, "ledger.json")}
	b, err := files.ReadPrivate(m.file, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return m, os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &m.known); err != nil {
		return nil, fmt.Errorf("%s: %w\nhint: remove it, if it cannot be restored; then a ledger that was set back is not noticed", m.file, err)
	}
	m.written = m.known
	return m, nil
}

// see records a page that counts.
func (m *serials) see(p page) {
	if p.doc != nil {
		m.known.Lineage = p.Lineage
		m.known.Serial = p.Serial
		m.known.Accepted = p.Accepted.At
	}
}

// heartbeat records that a replica led at this time.
func (m *serials) heartbeat(at time.Time) {
	if at.After(m.known.At) {
		m.known.At = at
	}
}

// unsaved returns what is to be written to the file; false if the file is up to date.
func (m *serials) unsaved() (known, bool) {
	return m.known, m.file != "" && m.known != m.written
}

// save writes what unsaved returned. m.saving is held.
func (m *serials) save(k known) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return files.Replace(m.file, b, 0o600)
}

// save writes what is known of the ledger to the file. Followers do so too, since the
// last leader may have lost its folder.
func (l *Ledger) save(ctx context.Context) {
	m := l.serials
	m.saving.Lock()
	defer m.saving.Unlock()
	l.mu.Lock()
	k, ok := m.unsaved()
	l.mu.Unlock()
	if !ok {
		return
	}
	if err := m.save(k); err != nil {
		l.o.Logger.WarnContext(ctx, "the serial of the ledger could not be noted", "error", err)
		return
	}
	l.mu.Lock()
	m.written = k
	l.mu.Unlock()
}
