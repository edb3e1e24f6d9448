// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	// actTime is how long a step waits for its act, and how long after an act steps belong to it.
	actTime = time.Minute
	// heldTime is how long a claim that did not win may stay: honest clients withdraw it before.
	heldTime = 15 * time.Second
	// collectTime is how long changes of many versions are collected for one record.
	collectTime = 2 * time.Second
	// maxSteps bounds what waits. Above it every step is recorded at once.
	maxSteps = 10_000
	// maxClaims bounds the claims of one caller that are known.
	maxClaims = 1000
	// maxLooked bounds how many of them are looked for when there are so many.
	maxLooked = 20
)

// acts makes one record of what a command does in several requests to the built-in registry, by
// what they store. A step that no act of its caller in its place follows within actTime is recorded
// by itself, a lock held so long is a lock, and each request is among the decisions with its tag.
type acts struct {
	mu      sync.Mutex // guards the fields below
	claims  map[place]*claim
	waiting map[place][]*waiting
	recent  map[place]string // digest of an act within actTime
}

// place is where a caller acts: a repository, and a tag or workspace in it.
type place struct{ caller, repository, of string }

// waiting is a record that is written later, unless an act comes first.
type waiting struct {
	write    func(access.Change)
	change   access.Change
	timer    *time.Timer
	versions []int64 // of a collection
	digests  []string
}

// claim is an attempt to lock a workspace, or a lock.
type claim struct {
	waiting
	caller   string
	beside   []string // tags of the claims that were live when it was made
	command  bool     // a command of okara locks to change one thing
	root     place    // the claim by which its client has the lock through another process; zero: none
	made     time.Time
	since    time.Time // when the first of an unbroken chain of claims was made
	recorded bool
	wrote    bool
}

func newActs() *acts {
	return &acts{claims: map[place]*claim{}, waiting: map[place][]*waiting{}, recent: map[place]string{}}
}

// makerOf returns who made a tag's claim: who sent it since the start, else whom it names, or "".
func (a *acts) makerOf(repository, tag, named string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.claims[place{"", repository, tag}]; c != nil {
		return c.caller
	}
	return named
}

// mayHold reports whether a live claim may be a caller's lock: it is the caller's, or from before
// the start, and those beside which it was made have ended. named is whom the claim names.
func (a *acts) mayHold(at place, named string, live []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.claims[place{"", at.repository, at.of}]
	if c == nil {
		return named == "" || named == at.caller
	}
	return c.caller == at.caller && !slices.ContainsFunc(c.beside, func(tag string) bool { return slices.Contains(live, tag) })
}

// mayClaim reports whether a caller may make one more claim. Known ones may have ended unnoticed.
func (a *acts) mayClaim(caller string, isHeld func(place) bool) bool {
	a.mu.Lock()
	known := slices.DeleteFunc(slices.Collect(maps.Keys(a.claims)), func(at place) bool { return a.claims[at].caller != caller })
	a.mu.Unlock()
	if caller == "" || len(known) < maxClaims {
		return true
	}
	gone := slices.DeleteFunc(known[:maxLooked], isHeld)
	for _, at := range gone {
		a.endClaim(at, false)
	}
	return len(gone) > 0
}

// noteClaim notes a new claim, which may have joined that at root. It is recorded as a lock once it
// won, or stood for actTime, or one after the other of its caller did.
func (a *acts) noteClaim(at, root place, c *claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.caller == "" && len(a.claims) >= maxSteps {
		c.write(c.change)
		return
	}
	of, _ := format.ParseStateTag(at.of)
	r, _ := format.ParseStateTag(root.of)
	if won := a.claims[root]; won != nil && won.caller == c.caller && won.root == (place{}) && r.Fragment == of.Fragment && format.IDOfClaim(r.X) == format.IDOfClaim(of.X) {
		c.root = root
	}
	c.made = time.Now()
	c.since = c.made
	for other, o := range a.claims {
		t, _ := format.ParseStateTag(other.of)
		if o.caller == c.caller && other.repository == at.repository && t.Fragment == of.Fragment && !o.recorded && o.root == (place{}) && o.since.Before(c.since) {
			c.since = o.since
		}
	}
	a.claims[at] = c
	c.timer = time.AfterFunc(actTime-time.Since(c.since), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.recordLocked(c)
	})
}

// recordLocked records that a claim is a lock, unless its root is.
func (a *acts) recordLocked(c *claim) {
	if c.recorded || a.claims[c.root] != nil {
		return
	}
	c.write(c.change)
	c.recorded = true
}

// noteWin notes that a claim has won. It returns false for a claim that is not known.
func (a *acts) noteWin(at place) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.claims[at]
	if c != nil && !c.command {
		a.recordLocked(c)
	}
	return c != nil
}

// noteWrite notes a version that a caller wrote. If it is the copy with which a claim takes over,
// the lock tells of it: then it returns true, unless the lock is recorded already.
func (a *acts) noteWrite(caller, repository string, t format.StateTag, fence int64) (told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, c := range a.claims {
		of, ok := format.ParseStateTag(at.of)
		switch {
		case !ok || at.repository != repository || of.Fragment != t.Fragment || c.caller != caller:
		case fence == 0:
			c.wrote = true
		case of.N == fence && !c.recorded:
			c.change.Version = strconv.FormatInt(t.N, 10)
			told = true
		}
	}
	return told
}

type end uint8

const (
	endSilent end = iota // of a lock that an act has told of
	endUnlock
	endForced
	endLost // it had not won, or nothing was changed under it
)

// endClaim forgets a claim, and returns what its end means.
func (a *acts) endClaim(at place, forced bool) end {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.claims[at]
	if c != nil {
		delete(a.claims, at)
		c.timer.Stop()
		for _, joined := range a.claims {
			if joined.root == at { // unless it ends too
				joined.root = place{of: "ended"}
				joined.timer.Reset(actTime)
			}
		}
	}
	switch {
	case forced && c != nil:
		a.recordLocked(c)
		return endForced
	case forced:
		return endForced
	case c == nil: // it was made before this server started, or through another door
		return endUnlock
	case c.recorded:
		return endUnlock
	case c.root != place{}:
		return endSilent
	case !c.wrote && (c.change.Version != "" || time.Since(c.made) > heldTime): // a copy that it told of, or kept others out
		a.recordLocked(c)
		return endUnlock
	case !c.wrote:
		return endLost
	}
	return endSilent
}

// noteStep keeps a record of a mark until an act of the same caller comes there, whose part
// it then is; or writes it after actTime. It is part of an act that came before.
func (a *acts) noteStep(at place, write func(access.Change), c access.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.recent[at] != "":
	case len(a.waiting) >= maxSteps:
		write(c)
	default:
		a.waitLocked(at, actTime, &waiting{write: write, change: c})
	}
}

// undoMark forgets a mark that is gone. It returns false if none waits and no act told of it.
func (a *acts) undoMark(at place, digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.waiting[at], func(w *waiting) bool { return w.change.Digest == digest })
	if i < 0 {
		return a.recent[at] != ""
	}
	a.waiting[at][i].timer.Stop()
	a.waiting[at] = slices.Delete(a.waiting[at], i, i+1)
	return true
}

// waitLocked keeps a record until a time has passed.
func (a *acts) waitLocked(at place, pause time.Duration, w *waiting) {
	a.waiting[at] = append(a.waiting[at], w)
	w.timer = time.AfterFunc(pause, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.flushLocked(at)
	})
}

// flushLocked writes what waits at a place.
func (a *acts) flushLocked(at place) {
	for _, w := range a.waiting[at] {
		w.timer.Stop()
		if len(w.versions) > 1 {
			w.change.Version = ""
			w.change.Detail = fmt.Sprintf("%d versions: %s", len(w.versions), rangeText(w.versions))
		}
		w.write(w.change)
	}
	delete(a.waiting, at)
}

// noteAct makes what waits at a place, and comes there within actTime, a part of the act of digest.
func (a *acts) noteAct(at place, digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting[at] {
		w.timer.Stop()
	}
	delete(a.waiting, at)
	if len(a.recent) >= maxSteps {
		return
	}
	a.recent[at] = digest
	time.AfterFunc(actTime, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.recent[at] == digest {
			delete(a.recent, at)
		}
	})
}

// dropStep makes the last step that waits at a place a part of an act.
func (a *acts) dropStep(at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := len(a.waiting[at]) - 1; i >= 0 {
		a.waiting[at][i].timer.Stop()
		a.waiting[at] = a.waiting[at][:i]
	}
}

// isPart reports whether a digest is that of an act within actTime.
func (a *acts) isPart(at place, digest string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return digest != "" && a.recent[at] == digest
}

// collect makes one record of many versions. One is often deleted by tag, then by digest.
func (a *acts) collect(at place, write func(access.Change), c access.Change) {
	n, _ := strconv.ParseInt(c.Version, 10, 64) // 0: by digest
	a.mu.Lock()
	defer a.mu.Unlock()
	if all := a.waiting[at]; len(all) == 1 {
		if w := all[0]; !slices.Contains(w.digests, c.Digest) {
			w.digests = append(w.digests, c.Digest)
			w.versions = append(w.versions, n)
		}
		return
	}
	a.waitLocked(at, collectTime, &waiting{write: write, change: c, versions: []int64{n}, digests: []string{c.Digest}})
}

// settleDeletions writes the collections that wait, before the records are shown.
func (a *acts) settleDeletions(all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, waits := range a.waiting {
		if all || len(waits) > 0 && len(waits[0].versions) > 0 {
			a.flushLocked(at)
		}
	}
	if !all {
		return
	}
	for _, c := range a.claims { // the server ends
		c.timer.Stop()
		a.recordLocked(c)
	}
}

// rangeText writes numbers as 1-3, 7.
func rangeText(all []int64) string {
	slices.Sort(all)
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.FormatInt(all[i], 10)
		if j > i {
			part += "-" + strconv.FormatInt(all[j], 10)
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
