// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
)

// Limits of what a record keeps for display.
const (
	maxRuns    = 10
	maxHistory = 10
	maxText    = 1 << 10 // bytes of an error or a reason
	maxDetail  = 200     // bytes of a detail of the history
)

// tx is the transaction of one step, by which events read and change the document, in copies.
type tx struct {
	machine *Machine
	command Command
	now     time.Time
	old     *Document // as given
	doc     *Document // old itself until something changes
	effects []Effect
	randoms int // how many values were derived from the seed

	own             struct{ records, templates, pools, requests bool }
	edited          map[string]*Record // copies that may be changed
	unusedTemplates bool               // a template may have lost its last record
}

func (tx *tx) editDocument() *Document {
	if tx.doc == tx.old {
		d := *tx.old
		tx.doc = &d
	}
	return tx.doc
}

// copyOnce returns a map of the document for changing, copied if it is not yet.
func copyOnce[V any](m *map[string]V, mine *bool) map[string]V {
	if !*mine {
		*m = maps.Clone(*m)
		*mine = true
		if *m == nil {
			*m = map[string]V{}
		}
	}
	return *m
}

func (tx *tx) editRecords() map[string]*Record {
	return copyOnce(&tx.editDocument().Records, &tx.own.records)
}
func (tx *tx) editPools() map[string]*Pool { return copyOnce(&tx.editDocument().Pools, &tx.own.pools) }
func (tx *tx) editRequests() map[string]*Request {
	return copyOnce(&tx.editDocument().Requests, &tx.own.requests)
}

// edit returns a copy of a record in the document that may be changed.
func (tx *tx) edit(r *Record) *Record {
	if mine := tx.edited[r.ID]; mine != nil {
		return mine
	}
	return tx.putRecord(r.clone())
}

// putRecord adds a record that this step owns to the document.
func (tx *tx) putRecord(r *Record) *Record {
	if tx.edited == nil {
		tx.edited = map[string]*Record{}
	}
	tx.editRecords()[r.ID] = r
	tx.edited[r.ID] = r
	return r
}

func (tx *tx) dropRecord(r *Record) {
	delete(tx.editRecords(), r.ID)
	delete(tx.edited, r.ID)
	tx.unusedTemplates = true
}

// editPool returns the state of a template's pool for changing.
func (tx *tx) editPool(name string) *Pool {
	p := Pool{}
	if known := tx.doc.Pools[name]; known != nil {
		p = *known
		p.Notices = slices.Clone(p.Notices)
	}
	tx.editPools()[name] = &p
	return &p
}

func (tx *tx) keepTemplate(digest string, t *template.Template) {
	if tx.doc.Templates[digest] == nil {
		copyOnce(&tx.editDocument().Templates, &tx.own.templates)[digest] = t
	}
}

// close completes the changed document: sizes, next deadlines, unused templates.
func (tx *tx) close() {
	if tx.doc == tx.old {
		return
	}
	tx.doc.Version = version
	tx.doc.Clock.At = tx.now
	for _, r := range tx.edited {
		r.shrink()
		r.Next = tx.doc.nextDeadline(r)
	}
	if tx.unusedTemplates {
		tx.dropUnusedTemplates()
	}
}

func (tx *tx) dropUnusedTemplates() {
	used := map[string]bool{}
	for _, r := range tx.doc.Records {
		for _, digest := range r.Snapshots() {
			used[digest] = true
		}
	}
	for digest := range tx.doc.Templates {
		if !used[digest] {
			delete(copyOnce(&tx.editDocument().Templates, &tx.own.templates), digest)
		}
	}
}

// Snapshots returns the digests of the templates that a record needs.
func (r *Record) Snapshots() []string {
	all := []string{r.Snapshot}
	for _, run := range openRuns(r) {
		all = append(all, run.Snapshot)
	}
	for i := range r.Runs {
		all = append(all, r.Runs[i].Snapshot)
	}
	if r.Then != nil {
		all = append(all, r.Then.Snapshot)
	}
	if r.Pending != nil && r.Pending.Update != nil {
		all = append(all, r.Pending.Update.Snapshot)
	}
	return all
}

// addEffect adds an effect on an attempt, or on a whole record.
func (tx *tx) addEffect(kind string, ref Ref) {
	tx.effects = append(tx.effects, Effect{Kind: kind, Ref: ref})
}

func (tx *tx) recordEvent(r *Record, action, detail string) {
	addHistory(tx, r, History{Actor: tx.actorName(), Action: action, Detail: detail})
}

func addHistory(tx *tx, r *Record, h History) {
	h.At = tx.now
	h.Detail = clipForeign(h.Detail, maxDetail)
	r.Events = append([]History{h}, r.Events[:min(len(r.Events), maxHistory-1)]...)
}

// recordRunEnd adds the outcome of the latest ended run to the history.
func recordRunEnd(tx *tx, r *Record, action, why string) {
	recordRunEvent(tx, r, action, &r.Runs[0], why)
}

// recordRunEvent adds a run's outcome to the history, without actor but with its requester.
func recordRunEvent(tx *tx, r *Record, action string, run *Run, why string) {
	detail := fmt.Sprintf("run %d, requested by %s", run.N, cmp.Or(run.By.Label, run.By.Subject, "the server"))
	switch c := run.Counts; {
	case c == nil:
	case run.Result == Done, run.Result == "":
		detail += "; " + c.Words(run.Result == Done)
	}
	if why != "" {
		detail += ": " + why
	}
	addHistory(tx, r, History{Action: action, Detail: detail, Run: run.N})
}

// actorName returns the actor for display; "": the server.
func (tx *tx) actorName() string {
	return clipForeign(cmp.Or(tx.command.Actor.Label, tx.command.Actor.Subject), 128)
}

// alphabet has no characters that look alike; letters come first.
const (
	alphabet = "abcdefghjkmnpqrstvwxyz23456789"
	letters  = 22
)

func (tx *tx) newID() string {
	for {
		sum := tx.nextRandom()
		id := make([]byte, 10)
		for i := range id {
			n := uint64(len(alphabet))
			if i == 0 {
				n = letters // a DNS label begins with a letter
			}
			id[i] = alphabet[uint64(binary.BigEndian.Uint16(sum[2*i:]))%n]
		}
		if tx.doc.Records[string(id)] == nil {
			return string(id)
		}
	}
}

// newNonce makes a nonce for an attempt, which cannot be guessed.
func (tx *tx) newNonce() string {
	sum := tx.nextRandom()
	return hex.EncodeToString(sum[:16])
}

func (tx *tx) nextRandom() [32]byte {
	tx.randoms++
	return deriveValue(tx.command.Seed, tx.randoms)
}

func deriveValue(seed [32]byte, n int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], uint64(n)))
}

// clone copies the parts of a record that a step may change; maps are replaced, never changed.
func (r *Record) clone() *Record {
	c := *r
	c.Conditions = slices.Clone(r.Conditions)
	c.Runs = slices.Clone(r.Runs)
	c.Open = slices.Clone(r.Open)
	c.Notices = slices.Clone(r.Notices)
	c.Events = slices.Clone(r.Events)
	c.Run = copyOf(r.Run)
	c.Then = copyOf(r.Then)
	c.Switch = copyOf(r.Switch)
	return &c
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func (r *Record) setCondition(kind, reason, message string) {
	r.unsetCondition(kind)
	r.Conditions = append(r.Conditions, Condition{Type: kind, Reason: reason, Message: clipForeign(message, maxText)})
}

func (r *Record) unsetCondition(kind string) {
	r.Conditions = slices.DeleteFunc(r.Conditions, func(c Condition) bool { return c.Type == kind })
}

// condition returns a condition; its Type is "" if the record does not have it.
func (r *Record) condition(kind string) Condition {
	i := slices.IndexFunc(r.Conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return Condition{}
	}
	return r.Conditions[i]
}

// clipForeign makes an untrusted text safe, and cuts it.
func clipForeign(foreign string, limit int) string { return text.Clip(text.Block(foreign), limit) }

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
