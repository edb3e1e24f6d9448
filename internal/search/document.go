// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of a document.
const (
	MaxDocument = 64 << 20 // bytes, expanded
	maxEntries  = 100_000
)

const schemaVersion = 1

// EncodeEntries encodes the stored document: JSON, an entry a line.
func EncodeEntries(entries []Entry) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"schemaVersion":%d,"entries":[`, schemaVersion)
	for i, e := range entries[:min(len(entries), maxEntries)] {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode the index: %w", err)
		}
		if b.Len()+len(line) > MaxDocument-16 {
			break // entries that are left out are read again
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

// DecodeEntries decodes entry by entry, so that damage costs no memory beyond the bounds.
func DecodeEntries(document []byte) ([]Entry, error) {
	if len(document) > MaxDocument {
		return nil, fmt.Errorf("the index has %d bytes, the limit is %d", len(document), MaxDocument)
	}
	d := json.NewDecoder(bytes.NewReader(document))
	if err := expectTokens(d, json.Delim('{'), "schemaVersion"); err != nil {
		return nil, err
	}
	var version int
	if err := d.Decode(&version); err != nil {
		return nil, fmt.Errorf("the index: %w", err)
	}
	if version != schemaVersion {
		return nil, fmt.Errorf("index version %d is not supported, expected %d", version, schemaVersion)
	}
	if err := expectTokens(d, "entries", json.Delim('[')); err != nil {
		return nil, err
	}
	var entries []Entry
	for d.More() {
		if len(entries) == maxEntries {
			return nil, fmt.Errorf("the index has more than %d entries", maxEntries)
		}
		var e Entry
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("entry %d of the index: %w", len(entries), err)
		}
		if e.Kind == "" || len(e.Kind) > maxName || e.Address == "" || len(e.Address) > maxAddress {
			continue
		}
		e.Trim()
		entries = append(entries, e)
	}
	return entries, nil
}

func expectTokens(d *json.Decoder, tokens ...json.Token) error {
	for _, want := range tokens {
		got, err := d.Token()
		if err != nil {
			return fmt.Errorf("the index: %w", err)
		}
		if got != want {
			return errors.New("not a valid search index")
		}
	}
	return nil
}
