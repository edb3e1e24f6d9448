// SPDX-License-Identifier: Apache-2.0

package downloads

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// Days is for how many days counts are kept separately.
	Days = 90
	// monthDays is the length of a month in Stats.
	monthDays = 30
)

// Stats holds the downloads of one module or provider.
type Stats struct {
	Last     time.Time   // the last day of Days, UTC
	Days     [Days]int64 // of each day, oldest first
	Month    int64       // of 30 days
	Total    int64       // of all known days
	Versions []Part      // most downloaded first; "" stands for versions that are not counted separately
	Tools    []Part
}

// Part is the share of one version or tool in the downloads.
type Part struct {
	Name         string
	Month, Total int64
}

// Names of downloading tools, according to their User-Agent.
const (
	ToolOpenTofu  = "opentofu"
	ToolTerraform = "terraform"
	ToolOkara     = "okara"
	ToolOther     = "other"
)

// Tool returns the tool in a User-Agent header, which is not verified.
func Tool(agent string) string {
	for _, known := range []struct{ mark, tool string }{
		{"OpenTofu/", ToolOpenTofu}, {"Terraform/", ToolTerraform}, {"okara/", ToolOkara},
	} {
		if strings.Contains(agent, known.mark) {
			return known.tool
		}
	}
	return ToolOther
}

// item is a module or provider, including all its versions.
type item struct{ kind, address string }

// tally holds downloads by item and day.
type tally map[item]*itemTally

type itemTally struct {
	all             daily
	versions, tools map[string]*daily
}

// daily holds a number for each day with downloads, and the total.
type daily struct {
	total int64
	days  []dayCount // ascending
}

type dayCount struct {
	day int32 // since 1970, UTC
	n   int64
}

func dayOf(t time.Time) int32 { return int32(t.Unix() / (24 * 60 * 60)) }

func (t tally) countItem(what Counted, day int32, n int64) {
	of := item{what.Kind, what.Address}
	i := t[of]
	if i == nil {
		i = &itemTally{versions: map[string]*daily{}, tools: map[string]*daily{}}
		t[of] = i
	}
	i.all.addToDay(day, n)
	dailyOf(i.versions, what.Version).addToDay(day, n)
	tool := what.Tool
	if !slices.Contains([]string{ToolOpenTofu, ToolTerraform, ToolOkara}, tool) {
		tool = ToolOther
	}
	dailyOf(i.tools, tool).addToDay(day, n)
}

func dailyOf(m map[string]*daily, name string) *daily {
	d := m[name]
	if d == nil {
		d = &daily{}
		m[name] = d
	}
	return d
}

func (d *daily) addToDay(day int32, n int64) {
	d.total += n
	i, ok := slices.BinarySearchFunc(d.days, day, func(c dayCount, day int32) int { return cmp.Compare(c.day, day) })
	if !ok {
		d.days = slices.Insert(d.days, i, dayCount{day: day})
	}
	d.days[i].n += n
}

func (d *daily) sumSince(day int32) (n int64) {
	for _, c := range slices.Backward(d.days) {
		if c.day < day {
			break
		}
		n += c.n
	}
	return n
}

// foldItems drops the separate counts of days before the given one.
func (t tally) foldItems(day int32) {
	for _, i := range t {
		i.all.foldDays(day)
		for _, m := range []map[string]*daily{i.versions, i.tools} {
			for _, d := range m {
				d.foldDays(day)
			}
		}
	}
}

func (d *daily) foldDays(day int32) {
	i, _ := slices.BinarySearchFunc(d.days, day, func(c dayCount, day int32) int { return cmp.Compare(c.day, day) })
	d.days = slices.Delete(d.days, 0, i)
}

func (t tally) addToStats(s *Stats, of item, today int32) {
	i := t[of]
	if i == nil {
		return
	}
	for _, c := range i.all.days {
		if back := today - c.day; back >= 0 && back < Days {
			s.Days[Days-1-back] += c.n
		}
	}
	s.Month += i.all.sumSince(today - monthDays + 1)
	s.Total += i.all.total
	s.Versions = addParts(s.Versions, i.versions, today)
	s.Tools = addParts(s.Tools, i.tools, today)
}

func addParts(parts []Part, more map[string]*daily, today int32) []Part {
	for name, d := range more {
		at := slices.IndexFunc(parts, func(p Part) bool { return p.Name == name })
		if at < 0 {
			at = len(parts)
			parts = append(parts, Part{Name: name})
		}
		parts[at].Month += d.sumSince(today - monthDays + 1)
		parts[at].Total += d.total
	}
	return parts
}

func sortParts(parts []Part) {
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Month, a.Month), cmp.Compare(b.Total, a.Total), strings.Compare(b.Name, a.Name))
	})
}
