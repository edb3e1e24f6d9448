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

// step is the state of one step. It may change only what it has copied.
type step struct {
	*Machine
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

// Parts of a step, by topic.
type (
	creations     struct{ *step } // launches and their limits
	approvals     struct{ *step } // what waits for approval
	changes       struct{ *step } // changes by owners and admins
	outcomes      struct{ *step } // results of ended runs
	endings       struct{ *step } // lifetimes, destroys and final records
	notices       struct{ *step } // notices and stored answers
	poolMembers   struct{ *step } // instances of pools
	runQueue      struct{ *step } // runs and their order
	workspaceRuns struct{ *step } // runs of workspaces
)

func (w *step) creations() creations         { return creations{w} }
func (w *step) approvals() approvals         { return approvals{w} }
func (w *step) changes() changes             { return changes{w} }
func (w *step) outcomes() outcomes           { return outcomes{w} }
func (w *step) endings() endings             { return endings{w} }
func (w *step) notices() notices             { return notices{w} }
func (w *step) poolMembers() poolMembers     { return poolMembers{w} }
func (w *step) runQueue() runQueue           { return runQueue{w} }
func (w *step) workspaceRuns() workspaceRuns { return workspaceRuns{w} }

// change returns the document for changing.
func (w *step) change() *Document {
	if w.doc == w.old {
		d := *w.old
		w.doc = &d
	}
	return w.doc
}

// owned returns a map of the document for changing, copied if it is not yet.
func owned[V any](m *map[string]V, mine *bool) map[string]V {
	if !*mine {
		*m = maps.Clone(*m)
		*mine = true
		if *m == nil {
			*m = map[string]V{}
		}
	}
	return *m
}

func (w *step) records() map[string]*Record { return owned(&w.change().Records, &w.own.records) }
func (w *step) pools() map[string]*Pool     { return owned(&w.change().Pools, &w.own.pools) }
func (w *step) requests() map[string]*Request {
	return owned(&w.change().Requests, &w.own.requests)
}

// edit returns a copy of a record in the document that may be changed.
func (w *step) edit(r *Record) *Record {
	if mine := w.edited[r.ID]; mine != nil {
		return mine
	}
	return w.put(r.clone())
}

// put adds a record that this step owns to the document.
func (w *step) put(r *Record) *Record {
	if w.edited == nil {
		w.edited = map[string]*Record{}
	}
	w.records()[r.ID] = r
	w.edited[r.ID] = r
	return r
}

// drop deletes a record from the document.
func (w *step) drop(r *Record) {
	delete(w.records(), r.ID)
	delete(w.edited, r.ID)
	w.unusedTemplates = true
}

// pool returns the state of a template's pool for changing.
func (w *step) pool(name string) *Pool {
	p := Pool{}
	if known := w.doc.Pools[name]; known != nil {
		p = *known
		p.Notices = slices.Clone(p.Notices)
	}
	w.pools()[name] = &p
	return &p
}

// keep adds a template to the document.
func (w *step) keep(digest string, t *template.Template) {
	if w.doc.Templates[digest] == nil {
		owned(&w.change().Templates, &w.own.templates)[digest] = t
	}
}

// close completes the changed document: records are cut to size and get their next
// deadline, and unused templates are removed.
func (w *step) close() {
	if w.doc == w.old {
		return
	}
	w.doc.Version = version
	w.doc.Clock.At = w.now
	for _, r := range w.edited {
		r.fit()
		r.Next = w.doc.next(r)
	}
	if w.unusedTemplates {
		w.cleanUpTemplates()
	}
}

func (w *step) cleanUpTemplates() {
	used := map[string]bool{}
	for _, r := range w.doc.Records {
		for _, digest := range r.Snapshots() {
			used[digest] = true
		}
	}
	for digest := range w.doc.Templates {
		if !used[digest] {
			delete(owned(&w.change().Templates, &w.own.templates), digest)
		}
	}
}

// Snapshots returns the digests of the templates that a record needs.
func (r *Record) Snapshots() []string {
	all := []string{r.Snapshot}
	for _, run := range []*Run{r.Run, r.Then} {
		if run != nil {
			all = append(all, run.Snapshot)
		}
	}
	for _, runs := range [][]Run{r.Open, r.Runs} {
		for i := range runs {
			all = append(all, runs[i].Snapshot)
		}
	}
	if r.Pending != nil && r.Pending.Update != nil {
		all = append(all, r.Pending.Update.Snapshot)
	}
	return all
}

// do adds an effect on a whole record.
func (w *step) do(kind, id string) {
	w.effects = append(w.effects, Effect{Kind: kind, Ref: Ref{ID: id}})
}

// note adds an event to the history of a record.
func (w *step) note(r *Record, action, detail string) {
	record(w, r, History{Actor: w.actorName(), Action: action, Detail: detail})
}

func record(w *step, r *Record, h History) {
	h.At = w.now
	h.Detail = clip(h.Detail, maxDetail)
	r.Events = append([]History{h}, r.Events[:min(len(r.Events), maxHistory-1)]...)
}

// happened adds the outcome of the latest ended run to the history.
func happened(w *step, r *Record, action, why string) { outcome(w, r, action, &r.Runs[0], why) }

// outcome adds the outcome of a run to the history. The entry has no actor, since the
// run did it, but names the requester of the run.
func outcome(w *step, r *Record, action string, run *Run, why string) {
	by := run.By.Label
	if by == "" {
		by = cmp.Or(run.By.Subject, "the server")
	}
	detail := fmt.Sprintf("run %d, asked for by %s", run.N, by)
	switch c := run.Counts; {
	case c == nil:
	case run.Result == Done:
		detail += fmt.Sprintf("; %d added, %d changed, %d destroyed", c.Add, c.Change, c.Remove)
	case run.Result == "":
		detail += fmt.Sprintf("; %d to add, %d to change, %d to destroy", c.Add, c.Change, c.Remove)
	}
	if why != "" {
		detail += ": " + why
	}
	record(w, r, History{Action: action, Detail: detail, Run: run.N})
}

// actorName returns the actor for display; "": the server.
func (w *step) actorName() string {
	a := w.command.Actor
	if a.Label != "" {
		return clip(a.Label, 128)
	}
	return clip(a.Subject, 128)
}

// alphabet has no characters that look alike; letters come first.
const (
	alphabet = "abcdefghjkmnpqrstvwxyz23456789"
	letters  = 22
)

// newID makes an ID that no record has.
func (w *step) newID() string {
	for {
		sum := w.random()
		id := make([]byte, 10)
		for i := range id {
			n := uint64(len(alphabet))
			if i == 0 {
				n = letters // a DNS label begins with a letter
			}
			id[i] = alphabet[uint64(binary.BigEndian.Uint16(sum[2*i:]))%n]
		}
		if w.doc.Records[string(id)] == nil {
			return string(id)
		}
	}
}

// newNonce makes a nonce for an attempt, which cannot be guessed.
func (w *step) newNonce() string {
	sum := w.random()
	return hex.EncodeToString(sum[:16])
}

// random returns the next value derived from the seed.
func (w *step) random() [32]byte {
	w.randoms++
	return derive(w.command.Seed, w.randoms)
}

// derive returns the n-th value derived from a seed.
func derive(seed [32]byte, n int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], uint64(n)))
}

// clone copies the parts of a record that a step may change. Maps are replaced, never
// changed.
func (r *Record) clone() *Record {
	c := *r
	c.Conditions = slices.Clone(r.Conditions)
	c.Runs = slices.Clone(r.Runs)
	c.Open = slices.Clone(r.Open)
	c.Notices = slices.Clone(r.Notices)
	c.Events = slices.Clone(r.Events)
	if r.Run != nil {
		run := *r.Run
		c.Run = &run
	}
	if r.Then != nil {
		run := *r.Then
		c.Then = &run
	}
	return &c
}

// set sets a condition of a record.
func (r *Record) set(kind, reason, message string) {
	r.unset(kind)
	r.Conditions = append(r.Conditions, Condition{Type: kind, Reason: reason, Message: clip(message, maxText)})
}

func (r *Record) unset(kind string) {
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

// clip makes an untrusted text safe, and cuts it.
func clip(foreign string, limit int) string {
	return text.Clip(text.Block(foreign), limit)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
