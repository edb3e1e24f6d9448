// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/statebackend"
)

// FuzzAnnouncement reads arbitrary bodies: an accepted body fits into a signed upload
// address, and a state in it is written only if it matches the announcement.
//
// Shows: cloud 24
func FuzzAnnouncement(f *testing.F) {
	const state = `{"version":4,"serial":7,"lineage":"l"}`
	f.Add([]byte(`{"data":{"type":"state-versions","attributes":{"serial":7,"md5":"d41d8cd98f00b204e9800998ecf8427e","lineage":"l","force":true,"json-state":"e30="}}}`))
	f.Add([]byte(`{"data":{"attributes":{"serial":7,"md5":"` + checksum([]byte(state)) + `","state":"eyJ2ZXJzaW9uIjo0LCJzZXJpYWwiOjcsImxpbmVhZ2UiOiJsIn0="}}}`))
	f.Add([]byte(`{"data":[]}`))
	f.Add([]byte(`{"data":{"attributes":{"serial":1e3,"state":"%"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var d announcementDoc
		if parseBody(body, &d) != nil {
			return
		}
		a := d.Data.Attributes
		if a.check() != nil {
			return
		}
		if sum, err := hex.DecodeString(a.MD5); err != nil || len(sum) != 16 || a.Serial == nil || len(a.Lineage) > maxLineage {
			t.Errorf("accepted %+v", a)
		}
		v := signedUpload{Serial: *a.Serial, Lineage: a.Lineage, MD5: a.MD5}
		if v.matchState(a.State) != nil {
			return
		}
		if lineage, serial, ok := statebackend.Meta(a.State); !ok || serial != *a.Serial || a.Lineage != "" && lineage != a.Lineage || checksum(a.State) != a.MD5 {
			t.Errorf("%q matches %+v", a.State, v)
		}
	})
}

// TestLineage shows which lineages are accepted, since they are shown to others.
func TestLineage(t *testing.T) {
	announced := func(lineage string) error {
		return announcement{Serial: new(uint64(1)), MD5: "d41d8cd98f00b204e9800998ecf8427e", Lineage: lineage}.check()
	}
	for _, lineage := range []string{"", "2d6a1b34-5c3f", "größe", strings.Repeat("l", maxLineage)} {
		if err := announced(lineage); err != nil {
			t.Errorf("%q: %v", lineage, err)
		}
	}
	for _, lineage := range []string{"a\nb", "a\u202eb", "a\u2066b", "\xff", strings.Repeat("l", maxLineage+1)} {
		if err := announced(lineage); err == nil {
			t.Errorf("%q is taken", lineage)
		}
	}
}
