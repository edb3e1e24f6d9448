// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
)

// A decoded page breaks no rule, and is the same after encoding and decoding.
func FuzzPage(f *testing.F) {
	first := must.Get(page{Lineage: "l", Serial: 1, doc: &lifecycle.Document{Version: 1}}.encode())(f)
	f.Add(first)
	f.Add([]byte(`{"lineage":"l","serial":2,"moved":{"number":2,"version":1,"digest":"d"},"version":1}`))
	f.Add([]byte(`{"lineage":"l","serial":3,"aside":{"x":{"why":"I1","record":{"id":"x"}}},"version":1,"records":{"y":{"id":"y","phase":"?"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePage(b)
		if err != nil {
			return
		}
		for _, v := range lifecycle.Check(p.doc) {
			if v.ID != "" {
				t.Errorf("it was not set aside: %v", v)
			}
		}
		once := must.Get(p.encode())(t)
		again, err := decodePage(once)
		if err != nil {
			t.Fatalf("%v in %s", err, once)
		}
		if twice, err := again.encode(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%v\n%s\n%s", err, once, twice)
		}
	})
}

// A record that breaks a rule is set aside, and returns.
func TestSetAside(t *testing.T) {
	p, err := decodePage([]byte(`{"lineage":"l","serial":3,"version":1,"records":{"y":{"id":"y","phase":"?"}}}`))
	if err != nil || len(p.doc.Records) != 0 || p.reasons()["y"] == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	b := must.Get(p.encode())(t)
	if p, err = decodePage(b); err != nil || len(p.doc.Records) != 0 || p.Aside["y"].Record.Phase != "?" {
		t.Errorf("%+v, %v", p, err)
	}
}
