// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// This file is the registry of the world: the changes by requests and the lists.

func (w *world) readPointer(c *client) (Owner, Status) {
	i, ok := w.find("state-" + worldWorkspace)
	switch {
	case !ok:
		return OwnerNobody, StatusMissing
	case w.tags[i].content == w.content(c):
		return OwnerOurs, StatusDone
	case w.tags[i].put > w.content(c).put:
		return OwnerForeign, StatusDone
	}
	return OwnerBefore, StatusDone
}

func (w *world) readClaim(c ClaimID) Reply {
	i, ok := w.find(format.StateTag{Kind: format.LockClaim, Fragment: worldWorkspace, N: c.Fence, X: c.X}.String())
	if !ok || w.tags[i].half {
		return Reply{Status: StatusMissing, Err: oci.ErrNotFound}
	}
	return Reply{Joined: w.tags[i].root != ClaimID{}, Beside: w.tags[i].beside}
}

func (w *world) readTombstone(c ClaimID) (format.LockReason, Status) {
	i, ok := w.find(format.StateTag{Kind: format.ForceTombstone, Fragment: worldWorkspace, N: c.Fence, X: c.X}.String())
	if !ok {
		return "", StatusMissing
	}
	return w.tags[i].why, StatusDone
}

// readParent reads from which version a version was made.
func (w *world) readParent(n int64) Reply {
	i, ok := w.find(format.StateTag{Kind: format.StateNumbered, Fragment: worldWorkspace, N: n}.String())
	if !ok {
		return Reply{Status: StatusMissing, Err: oci.ErrNotFound}
	}
	e := w.tags[i]
	final := false
	for j := range w.clients {
		final = final || e.seal && format.ClaimOf(e.claim.X, sealerID+w.lockID(j))
	}
	return Reply{Parent: e.head, Final: final}
}

// list returns the content of a list, or takes one more step of reading.
func (w *world) list(c *client, n int) ([]string, bool) {
	if w.lists == listPrefix {
		if n == 0 {
			return nil, true
		}
		return names(w.order[n-1].after), true
	}
	if w.lists == listLag {
		tags := names(w.tags)
		if n > 0 && w.tags[n-1].claim != c.acq.Claim {
			tags = slices.Delete(tags, n-1, n)
		}
		return tags, true
	}
	switch {
	case w.whole:
		return names(w.tags), true
	case w.chunks:
		return w.listChunk(c)
	}
	i, found := w.find(c.cursor)
	switch {
	case w.descending && c.cursor == "":
		i = len(w.tags) - 1
	case w.descending:
		i--
	case found:
		i++
	}
	if i >= 0 && i < len(w.tags) {
		c.cursor = w.tags[i].tag
		c.listed = append(slices.Clip(c.listed), c.cursor)
		return nil, false
	}
	tags := c.listed
	c.listed, c.cursor = nil, ""
	return tags, true
}

// listChunk reads claims, versions and tombstones at three different times.
func (w *world) listChunk(c *client) ([]string, bool) {
	prefixes := [...]string{"locked-", "state-", "unlocked-"}
	prefix := prefixes[c.chunk]
	if w.descending {
		prefix = prefixes[2-c.chunk]
	}
	listed := slices.Clip(c.listed)
	for _, e := range w.tags {
		if strings.HasPrefix(e.tag, prefix) {
			listed = append(listed, e.tag)
		}
	}
	c.listed = listed
	if c.chunk++; c.chunk < 3 {
		return nil, false
	}
	c.listed, c.chunk = nil, 0
	return listed, true
}

func names(tags []entry) []string {
	list := make([]string, len(tags))
	for i, e := range tags {
		list[i] = e.tag
	}
	return list
}

// content is what a client writes now: its claim and, for versions, the number of the write.
func (w *world) content(c *client) content {
	switch c.req.Op {
	case OpPutVersion, OpPutPointer, OpReadPointer:
		return content{c.hold.Claim, int(c.req.N)*100 + c.puts} // two writes differ, even with the same number
	}
	return content{c.req.Claim, 0}
}

// updates returns the changes that the client's request makes.
func (w *world) updates(c *client) []update {
	tag := func(k format.StateTagKind, n int64) string {
		return format.StateTag{Kind: k, Fragment: worldWorkspace, N: n, X: c.req.Claim.X}.String()
	}
	put := func(tag string) []update { return []update{{entry: entry{tag: tag, content: w.content(c)}}} }
	remove := func(tag string) update { return update{entry: entry{tag: tag}, remove: true} }
	f := c.req.Claim.Fence
	switch c.req.Op {
	case OpPutClaim:
		list := put(tag(format.LockClaim, f))
		list[0].root, list[0].beside = c.req.Root, c.req.Beside
		return list
	case OpPutTombstone:
		kind := format.LockTombstone
		if c.req.Forced {
			kind = format.ForceTombstone
		}
		list := put(tag(kind, f))
		list[0].why = c.req.Reason
		return list
	case OpPutSeal, OpPutVersion:
		list := put(tag(format.StateNumbered, c.req.N))
		list[0].seal, list[0].head = c.req.Op == OpPutSeal, c.req.Head
		if !list[0].seal {
			list[0].head = c.hold.Newest
		}
		return list
	case OpPutPointer:
		return put("state-" + worldWorkspace)
	case OpPutMarker, OpPutUnlocked:
		return put("locked-" + worldWorkspace)
	case OpUntagMarker:
		return []update{remove("locked-" + worldWorkspace)}
	case OpUntagClaim:
		return []update{remove(tag(format.LockClaim, f))}
	case OpDelete:
		return w.deleted(c, tag(format.LockClaim, f), remove)
	}
	return nil
}

func (w *world) deleted(c *client, claim string, remove func(string) update) []update {
	if w.deletes != deleteAll {
		return nil
	}
	if w.half(c.req.Claim) {
		return nil // there is no manifest to delete
	}
	list := []update{remove(claim)}
	if i, ok := w.find("locked-" + worldWorkspace); ok && w.tags[i].claim == c.req.Claim {
		list = append(list, remove("locked-"+worldWorkspace))
	}
	return list
}

func (w *world) find(tag string) (int, bool) {
	return slices.BinarySearchFunc(w.tags, tag, func(e entry, t string) int { return strings.Compare(e.tag, t) })
}

func (w *world) has(tag string) bool {
	_, ok := w.find(tag)
	return ok
}

func applied(tags []entry, u update) []entry {
	i, ok := slices.BinarySearchFunc(tags, u.tag, func(e entry, t string) int { return strings.Compare(e.tag, t) })
	switch {
	case u.remove && ok:
		return slices.Concat(tags[:i], tags[i+1:])
	case u.remove:
		return tags
	case ok:
		tags = slices.Clone(tags)
		tags[i] = u.entry
		return tags
	}
	return slices.Concat(tags[:i], []entry{u.entry}, tags[i:])
}
