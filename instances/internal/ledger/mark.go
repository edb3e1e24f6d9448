// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	// tagMark names the repository in which a ledger continues.
	tagMark      = "current"
	artifactMark = "application/vnd.okara.ledger.v1"
	// maxNumber bounds the number of a ledger's repository: 5,000 commits each.
	maxNumber = 1_000_000
)

// mark is the JSON of the manifest of tagMark.
type mark struct {
	Number int `json:"number"` // from 2 on
}

// parseMark returns the number of the repository that a manifest names.
func parseMark(m oci.Manifest) (int, error) {
	var l mark
	if err := format.ParseMark(m, artifactMark, &l); err != nil {
		return 0, err
	}
	if l.Number < 2 || l.Number > maxNumber {
		return 0, fmt.Errorf("manifest %s: ledger number %d: %w", m.Digest, l.Number, oci.ErrCorrupt)
	}
	return l.Number, nil
}

// A leader's address is in its claim, in Path of the lock's information, as "ADDRESS MAC [MAC…]":
// any writer to the registry can write a claim, and a MAC, one for each key of the readers, proves
// a replica's.

// maxCodes bounds how many MACs of a claim are checked.
const maxCodes = 64

// sign returns the signed address for the claim under a tag; "" if the replica has no
// address or no key.
func (o *Options) sign(repository, tag string) string {
	keys := slices.Concat(o.AddressKeys, o.PortalKeys)
	if o.Address == "" || len(keys) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString(o.Address)
	for _, key := range keys[:min(len(keys), maxCodes)] {
		text.WriteString(" " + base64.RawURLEncoding.EncodeToString(addressCode(key, repository, tag, o.Address)))
	}
	return text.String()
}

// verify returns the address in a claim; "" if none of the reader's keys verifies it.
func (o *Options) verify(repository, tag string, held statebackend.LockInfo) string {
	address, codes, ok := strings.Cut(held.Path, " ")
	if !ok || tag == "" {
		return ""
	}
	all := strings.SplitN(codes, " ", maxCodes+1)
	for _, text := range all[:min(len(all), maxCodes)] {
		got, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		for _, key := range o.AddressKeys {
			if hmac.Equal(got, addressCode(key, repository, tag, address)) {
				return address
			}
		}
	}
	return ""
}

// addressCode returns the MAC of an address for one claim. No part contains the separator.
func addressCode(key []byte, repository, tag, address string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(strings.Join([]string{"okara ledger address v1", repository, tag, address}, "\x00"))) // never fails
	return h.Sum(nil)
}

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
		return nil, fmt.Errorf("%s: %w\nhint: remove it, if it cannot be restored; then a rollback of the ledger goes unnoticed", m.file, err)
	}
	m.written = m.known
	return m, nil
}

// seePage records a page that counts.
func (m *serials) seePage(p page) {
	if p.doc != nil {
		m.known.Lineage = p.Lineage
		m.known.Serial = p.Serial
		m.known.Accepted = p.Accepted.At
	}
}

// save writes what is known of the ledger to the file, on followers too.
func (l *Ledger) save(ctx context.Context) {
	m := l.serials
	m.saving.Lock()
	defer m.saving.Unlock()
	l.mu.Lock()
	k := m.known
	saved := m.file == "" || k == m.written
	l.mu.Unlock()
	if saved {
		return
	}
	b, err := json.Marshal(k)
	if err == nil {
		err = files.Replace(m.file, b, 0o600)
	}
	if err != nil {
		l.o.Logger.WarnContext(ctx, "serial of the ledger not recorded", "error", err)
		return
	}
	l.mu.Lock()
	m.written = k
	l.mu.Unlock()
}
