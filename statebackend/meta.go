// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Meta reads lineage and serial of a state, which are in clear even in a state
// that the tool encrypted. ok is false for anything that is no state.
func Meta(state []byte) (lineage string, serial uint64, ok bool) {
	h := readHead(state)
	return h.lineage, h.serial, h.ok
}

// EncryptedByTool tells whether OpenTofu encrypted the state itself.
func EncryptedByTool(state []byte) bool { return readHead(state).encrypted }

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

// skipValue reads one value of any depth.
func skipValue(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
