// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Meta reads lineage and serial of a state, which are in clear even in a state
// that the tool encrypted. ok is false for anything that is no state.
func Meta(state []byte) (lineage string, serial uint64, ok bool) {
	h := readHead(state)
	return h.lineage, h.serial, h.ok
}

// EncryptedByTool tells whether OpenTofu encrypted the state itself: it has the
// members of an encrypted state and no others. Terraform ignores members that it
// does not know, so one that says both would be read as if it were in clear. See
// https://github.com/opentofu/opentofu/blob/main/internal/encryption/base.go.
func EncryptedByTool(state []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(state))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	encrypted := false
	for dec.More() {
		switch t, _ := dec.Token(); t {
		case "encrypted_data":
			encrypted = true
		case "serial", "lineage", "meta", "encryption_version":
		default:
			return false
		}
		if skipValue(dec) != nil {
			return false
		}
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return false
	}
	_, err := dec.Token()
	return encrypted && err == io.EOF
}

// head is what the top level of a state's JSON says.
type head struct {
	lineage   string
	serial    uint64
	encrypted bool
	ok        bool
}

// readHead reads only as far as needed: states are large, and both tools write
// these members first.
func readHead(state []byte) head {
	var h head
	var serial, lineage, version bool
	dec := json.NewDecoder(bytes.NewReader(state))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return h
	}
	for dec.More() {
		t, err := dec.Token()
		key, isString := t.(string)
		if err != nil || !isString {
			return head{}
		}
		switch key {
		case "encrypted_data", "encryption_version":
			h.encrypted = true
		case "version":
			version = true
		case "serial", "lineage":
			v, err := dec.Token()
			if err != nil {
				return head{}
			}
			if n, isNumber := v.(json.Number); isNumber && key == "serial" {
				h.serial, err = strconv.ParseUint(n.String(), 10, 64)
				serial = err == nil
			}
			if s, isString := v.(string); isString && key == "lineage" {
				h.lineage, lineage = s, true
			}
			h.ok = serial && lineage
			if h.ok && (h.encrypted || version) {
				return h
			}
			continue
		}
		if h.ok && (h.encrypted || version) {
			return h
		}
		if err := skipValue(dec); err != nil {
			return head{}
		}
	}
	return h
}

// maxDepth bounds how deep a member nests that is skipped: the decoder keeps
// eight bytes for every open bracket, so that a state of nothing else would take
// eight times its size.
const maxDepth = 1000

// skipValue reads one value.
func skipValue(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested more than %d deep: %w", maxDepth, ErrNotState)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
