// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Alteration is a difference between the log and what its processes wrote.
type Alteration struct {
	Tag    string `json:"tag"` // of the part
	Reason string `json:"reason"`
}

// link holds what the chain check needs of a part.
type link struct {
	tag    AuditTag
	reason string // why the part cannot be read; "": it can
	part   *part  // without its entries; nil if it cannot be read
}

// claim says that a record existed. Its source is another part, or this process.
type claim struct {
	mark
	by string
}

// check compares the parts with what they say of one another, and with the claims about
// processes, by ID. Parts of days before oldest may be missing.
func check(links []link, claims map[string]claim, oldest time.Time) []Alteration {
	var all []Alteration
	byID := map[string][]link{}
	for _, l := range links {
		if l.reason != "" {
			all = append(all, Alteration{l.tag.String(), l.reason})
		}
		byID[l.tag.ID] = append(byID[l.tag.ID], l)
	}
	for id, own := range byID {
		slices.SortFunc(own, func(a, b link) int { return a.tag.Compare(b.tag) })
		all = append(all, checkChain(own, oldest)...)
		if c, ok := claims[id]; ok {
			all = append(all, checkClaim(own, c)...)
		}
	}
	for id, c := range claims {
		if tag, ok := ParseAuditTag(c.Tag); ok && byID[id] == nil && !tag.Day.Before(oldest) {
			all = append(all, Alteration{c.Tag, "it is missing: " + c.by + " knows of it"})
		}
	}
	slices.SortFunc(all, func(a, b Alteration) int { return cmp.Or(cmp.Compare(b.Tag, a.Tag), cmp.Compare(a.Reason, b.Reason)) })
	return slices.Compact(all)
}

// checkChain checks the parts of one process, in their order.
func checkChain(own []link, oldest time.Time) (all []Alteration) {
	for i, l := range own {
		if l.part == nil || l.part.Before == nil && i == 0 {
			continue
		}
		if l.part.Before == nil {
			all = append(all, Alteration{own[i-1].tag.String(), l.tag.String() + " of the same process begins anew"})
			continue
		}
		var prev link
		if i > 0 {
			prev = own[i-1]
		}
		tag, _ := ParseAuditTag(l.part.Before.Tag) // parsePart has validated it
		switch {
		case i == 0 || prev.tag.Compare(tag) != 0:
			if !tag.Day.Before(oldest) {
				all = append(all, Alteration{l.part.Before.Tag, "it is missing: " + l.tag.String() + " goes on from it"})
			}
		case prev.part == nil: // reported on its own
		case prev.part.digest != l.part.Before.Digest:
			all = append(all, Alteration{prev.tag.String(), "it is not what " + l.tag.String() + " goes on from"})
		case prev.part.last+1 != l.part.First:
			all = append(all, Alteration{l.tag.String(), fmt.Sprintf("it begins with number %d, and the part before it ends with %d", l.part.First, prev.part.last)})
		}
	}
	return all
}

// checkClaim compares the last record of a process with a claim about it.
func checkClaim(own []link, c claim) []Alteration {
	last := own[len(own)-1]
	if slices.ContainsFunc(own, func(l link) bool { return l.part == nil }) || last.part.last >= c.N {
		return nil // a part that cannot be read is reported on its own
	}
	return []Alteration{{last.tag.String(), fmt.Sprintf("it ends with number %d, and %s knows of number %d in %s", last.part.last, c.by, c.N, c.Tag)}}
}
