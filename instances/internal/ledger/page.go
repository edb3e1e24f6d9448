// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/oci"
)

// page is one version of the ledger: its own fields, followed by the document of instances.
type page struct {
	Lineage  string            `json:"lineage"` // the same for all versions
	Serial   uint64            `json:"serial"`  // grows with each commit
	Accepted acceptance        `json:"accepted,omitzero"`
	Moved    *moved            `json:"moved,omitempty"`
	Aside    map[string]*aside `json:"aside,omitempty"` // by id

	doc  *lifecycle.Document // nil if nothing was committed yet
	size int                 // bytes that were read
}

// acceptance records when an administrator accepted the ledger, whatever was known of it before.
type acceptance struct {
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
}

// moved says that the ledger continues in another repository, from a document with a digest.
type moved struct {
	Number  int    `json:"number"` // of the repository
	Version int64  `json:"version"`
	Digest  string `json:"digest"` // SHA-256 of the document in clear, hex
}

// aside is a record that is kept but ignored.
type aside struct {
	Why      string             `json:"why"`
	Record   *lifecycle.Record  `json:"record"`
	Template *template.Template `json:"template,omitempty"` // its snapshot
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// reasons returns why records are set aside.
func (p page) reasons() map[string]string {
	m := map[string]string{}
	for id, a := range p.Aside {
		m[id] = a.Why
	}
	return m
}

// encode encodes a page as one JSON object: its members, then those of the document.
func (p page) encode() ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the ledger: %w", err)
	}
	body, err := lifecycle.Encode(p.doc)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(head)+len(body))
	b = append(b, head[:len(head)-1]...)
	b = append(b, ',')
	return append(b, body[1:]...), nil
}

// decodePage decodes what encode wrote. Records that break a rule are set aside while they do.
func decodePage(b []byte) (page, error) {
	doc, err := lifecycle.Decode(b) // bounds size and depth of all
	if err != nil {
		return page{}, corruptLedger(err)
	}
	p, err := decodeHead(b)
	if err != nil {
		return page{}, corruptLedger(err)
	}
	p.doc = doc
	p.size = len(b)
	p.setAsideBroken()
	return p, nil
}

// setAsideBroken sets aside records that break a rule.
func (p *page) setAsideBroken() {
	d := p.doc
	before := p.Aside
	p.Aside = nil
	for id, a := range before {
		if d.Records[id] != nil || a.Record.ID != id {
			p.setAside(id, a) // another record has its ID
			continue
		}
		if d.Records == nil {
			d.Records = map[string]*lifecycle.Record{}
		}
		d.Records[id] = a.Record
		if a.Template != nil && d.Templates[a.Record.Snapshot] == nil {
			if d.Templates == nil {
				d.Templates = map[string]*template.Template{}
			}
			d.Templates[a.Record.Snapshot] = a.Template
		}
	}
	for _, v := range lifecycle.Check(d) {
		if r := d.Records[v.ID]; r != nil {
			p.setAside(v.ID, &aside{Why: v.Rule + ": " + v.Text, Record: r, Template: d.Templates[r.Snapshot]})
			delete(d.Records, v.ID)
		}
	}
}

func (p *page) setAside(id string, a *aside) {
	if p.Aside == nil {
		p.Aside = map[string]*aside{}
	}
	p.Aside[id] = a
}

func corruptLedger(err error) error { return fmt.Errorf("the ledger: %v: %w", err, oci.ErrCorrupt) }

// decodeHead decodes the members of a page before those of its document.
func decodeHead(b []byte) (page, error) {
	var p page
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return p, fmt.Errorf("not an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return p, err
		}
		var into any
		switch name {
		case "lineage":
			into = &p.Lineage
		case "serial":
			into = &p.Serial
		case "accepted":
			into = &p.Accepted
		case "moved":
			into = &p.Moved
		case "aside":
			into = &p.Aside
		default:
			return p, p.check()
		}
		if err := dec.Decode(into); err != nil {
			return p, err
		}
	}
	return p, p.check()
}

func (p page) check() error {
	switch {
	case p.Lineage == "" || p.Serial == 0:
		return fmt.Errorf("no lineage, or no serial")
	case p.Moved != nil && (p.Moved.Number < 2 || p.Moved.Version < 1):
		return fmt.Errorf("moved without a target")
	}
	for id, a := range p.Aside {
		if a == nil || a.Record == nil {
			return fmt.Errorf("nothing is set aside as %q", id)
		}
	}
	return nil
}

// known is what a replica remembers of the newest page it has seen.
type known struct {
	Lineage  string    `json:"lineage"`
	Serial   uint64    `json:"serial"`
	Accepted time.Time `json:"accepted,omitzero"`
	At       time.Time `json:"at,omitzero"` // of the last heartbeat, by the clock of the ledger
}

// whyOlder returns why p does not follow the known page; nil: it does.
func (k known) whyOlder(p page) error {
	switch {
	case k.Lineage == "" || p.Accepted.At.After(k.Accepted):
		return nil
	case p.doc == nil:
		return fmt.Errorf("the ledger is empty, but was at serial %d", k.Serial)
	case p.Lineage != k.Lineage:
		return fmt.Errorf("the ledger was replaced: its lineage is %.40q, not %.40q", p.Lineage, k.Lineage)
	case p.Accepted.At.Before(k.Accepted):
		return fmt.Errorf("the ledger is at serial %d, from before it was accepted on %s", p.Serial, k.Accepted.Format(time.RFC3339))
	case p.Serial < k.Serial:
		return fmt.Errorf("the ledger is at serial %d, but was at %d", p.Serial, k.Serial)
	}
	return nil
}
