// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-141914ff/okara/oci"
)

// Restore writes old, an earlier state, as the successor of the current one: with
// a serial above both, unless OpenTofu encrypted it. Above a sealed version it needs
// the key of that one, as [Lock.Push] does: else a state that is sealed from some
// version on would be in clear again, or for a key that nobody else has. If that key is
// lost, another one that seals does, and nothing is known of what it succeeds but
// what its manifest says.
func (l *writer) Restore(ctx context.Context, old []byte, lostKey bool) (Version, error) {
	head, err := l.Head(ctx)
	if err == nil && head.Encrypted && l.s.o.Sealer == nil {
		_, _, err = l.Get(ctx)
	}
	if err != nil && lostKey && l.s.o.Sealer != nil {
		head, err = l.closedHead(ctx, err)
	}
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return Version{}, err
	}
	_, serial, _ := Meta(old)
	serial = max(serial, head.Serial)
	next, err := withSerial(old, serial+1)
	if err != nil {
		return Version{}, err
	}
	return l.Put(ctx, next)
}

// closedHead is the current version where it is sealed and err says why it cannot be
// opened.
func (l *writer) closedHead(ctx context.Context, err error) (Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, rerr := l.readHead(ctx); rerr == nil && sealed(m) {
		return newVersion(m), nil
	}
	return Version{}, err
}

// withSerial returns state with another serial and otherwise the same bytes. A
// state that OpenTofu encrypted is returned as it is, since the serial inside
// must be the one outside.
func withSerial(state []byte, serial uint64) ([]byte, error) {
	if EncryptedByTool(state) {
		return state, nil
	}
	d := json.NewDecoder(bytes.NewReader(state))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ErrNotState
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotState, err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotState, err)
		}
		if name != "serial" {
			continue
		}
		end := int(d.InputOffset())
		start := end - len(value)
		return bytes.Join([][]byte{state[:start], strconv.AppendUint(nil, serial, 10), state[end:]}, nil), nil
	}
	return nil, fmt.Errorf("it has no serial: %w", ErrNotState)
}
