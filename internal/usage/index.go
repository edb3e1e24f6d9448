// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// FewOthers is the number of states hidden from a caller from which on an answer has their number.
const FewOthers = 5

// Item is a module or a provider in one version. It is shared and never changed.
type Item struct {
	Kind        string `json:"kind"`
	Source      string `json:"source"`
	Version     string `json:"version,omitempty"`
	Constraints string `json:"constraints,omitempty"`
	address     string // without host: NAMESPACE/NAME/SYSTEM or NAMESPACE/TYPE; "": a module without one
}

// ModuleItem returns a module in a version. source is its address, with or without host.
func ModuleItem(source, version string) Item {
	return Item{Kind: addr.KindModule, Source: source, Version: version, address: moduleAddress(source)}
}

// Use is an item that a state uses.
type Use struct {
	*Item
	Since int64 // Unix time
}

// Entry is the newest version of a state. It is shared and never changed.
type Entry struct {
	State, Workspace string
	N                int64
	Written          time.Time
	By               string
	Recorded         string // Complete or Partial; "": not recorded
	Uses             []Use
}

// Index knows what states use. Its methods must not be called at once; entries it returned stay.
type Index struct {
	entries map[string]map[string]*Entry // by state and workspace
	items   map[Item]*Item
	users   map[*Item][]*Entry
	bare    map[*Entry]bool // those that have no complete record
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{entries: map[string]map[string]*Entry{}, items: map[Item]*Item{}, users: map[*Item][]*Entry{}, bare: map[*Entry]bool{}}
}

// Workspaces returns the entries of a state by workspace.
func (x *Index) Workspaces(state string) map[string]*Entry { return x.entries[state] }

// States returns the states that have an entry, sorted.
func (x *Index) States() []string { return slices.Sorted(maps.Keys(x.entries)) }

// PutEntry replaces the entry of a state by its newest version, made of d; nil: not recorded. What the
// entry before used, too, is in use since then.
func (x *Index) PutEntry(e Entry, d *Document) {
	if d != nil {
		e.Recorded = d.Recorded
		before := x.entries[e.State][e.Workspace]
		for _, m := range d.Modules {
			version := m.Version
			if version == "" {
				version = versionIn(m.Source)
			}
			x.addUse(&e, before, Item{Kind: addr.KindModule, Source: m.Source, Version: version, address: m.Address()}, m.Since)
		}
		for _, p := range d.Providers {
			x.addUse(&e, before, Item{Kind: addr.KindProvider, Source: p.Source, Version: p.Version, Constraints: p.Constraints, address: providerAddress(p.Source)}, p.Since)
		}
	}
	e.Uses = slices.Clip(e.Uses)
	x.storeEntry(&e)
}

func (x *Index) storeEntry(e *Entry) {
	before := x.entries[e.State][e.Workspace]
	for _, u := range e.Uses {
		x.users[u.Item] = append(x.users[u.Item], e)
	}
	if before != nil { // later, since it may be the only other user of an item
		x.dropEntry(before)
	}
	if x.entries[e.State] == nil {
		x.entries[e.State] = map[string]*Entry{}
	}
	x.entries[e.State][e.Workspace] = e
	if e.Recorded != Complete {
		x.bare[e] = true
	}
}

// dropEntry removes an entry, and items that nothing else uses.
func (x *Index) dropEntry(e *Entry) {
	delete(x.entries[e.State], e.Workspace)
	delete(x.bare, e)
	if len(x.entries[e.State]) == 0 {
		delete(x.entries, e.State)
	}
	for _, u := range e.Uses {
		x.users[u.Item] = slices.DeleteFunc(x.users[u.Item], func(other *Entry) bool { return other == e })
		if len(x.users[u.Item]) == 0 {
			delete(x.users, u.Item)
			delete(x.items, *u.Item)
		}
	}
}

// versionIn returns the version that a source names by tag or ref, as 1.2.3 or v1.2.3; else "".
func versionIn(source string) string {
	_, query, _ := strings.Cut(source, "?")
	for arg := range strings.SplitSeq(query, "&") {
		if _, value, ok := strings.Cut(arg, "="); ok {
			if v, err := addr.ParseVersion(value); err == nil {
				return v.String()
			}
		}
	}
	return ""
}

func (x *Index) addUse(e, before *Entry, it Item, since time.Time) {
	use := Use{x.internItem(it), e.Written.Unix()}
	if !since.IsZero() {
		use.Since = min(use.Since, since.Unix())
	}
	if before != nil {
		for _, u := range before.Uses {
			if u.Item == use.Item {
				use.Since = min(use.Since, u.Since)
			}
		}
	}
	if !slices.ContainsFunc(e.Uses, func(u Use) bool { return u.Item == use.Item }) { // they may differ by digest
		e.Uses = append(e.Uses, use)
	}
}

func (x *Index) internItem(it Item) *Item {
	if known := x.items[it]; known != nil {
		return known
	}
	x.items[it] = &it
	return &it
}

func providerAddress(source string) string {
	p, err := addr.ParseProvider(source)
	if err != nil {
		return ""
	}
	p.Hostname = ""
	return p.String()
}

// Remove drops the workspaces of a state for which gone is true.
func (x *Index) Remove(state string, gone func(*Entry) bool) {
	for _, e := range x.entries[state] {
		if gone(e) {
			x.dropEntry(e)
		}
	}
}

// Query asks for the users of a module or provider.
type Query struct {
	Kind    string // addr.KindModule or addr.KindProvider
	Source  string // as it is shown
	address string
	host    string          // "": any
	allow   addr.Constraint // with text "": all
	exact   string          // a source that has no address: the beginning before "?"
}

// ParseQuery reads ADDRESS[@CONSTRAINT]: NAMESPACE/NAME/SYSTEM of a module, [HOST/]NAMESPACE/TYPE of
// a provider, HOST/NAMESPACE/NAME/SYSTEM, or a source such as git::https://… or ./modules/vpc. With
// provider true only a provider is meant.
func ParseQuery(s string, provider bool) (Query, error) {
	source := s
	constraint := ""
	if i := strings.LastIndexByte(s, '@'); i >= 0 && !strings.Contains(s[i:], "/") { // else of git@HOST
		source, constraint = s[:i], s[i+1:]
	}
	if v, err := addr.ParseVersion(constraint); err == nil {
		constraint = v.String()
	}
	allow, err := addr.ParseConstraint(constraint)
	if err != nil {
		return Query{}, err
	}
	q := Query{Kind: addr.KindModule, Source: source, allow: allow}
	if clean, _ := cleanSource(source); !provider && clean != "" && (strings.Contains(source, "://") || strings.HasPrefix(source, "./")) {
		q.exact, _, _ = strings.Cut(clean, "?")
		if q.address = moduleAddress(clean); q.address != "" {
			q.exact = ""
		}
		return q, nil
	}
	if parts := strings.Split(source, "/"); len(parts) == 4 && !provider {
		q.host = strings.ToLower(parts[0])
		m, err := addr.ParseModule(strings.Join(parts[1:], "/"))
		q.address = m.String()
		return q, err
	}
	it, err := addr.ParseItem(source)
	switch {
	case err != nil || provider:
		p, perr := addr.ParseProvider(source)
		if perr != nil {
			return Query{}, cmp.Or(err, perr)
		}
		it = p.Item()
		fallthrough
	case it.Kind != addr.KindModule:
		q.Kind = addr.KindProvider
		q.host = it.Provider.Hostname
		it.Provider.Hostname = ""
		q.address = it.Provider.String()
	default:
		q.address = it.Module.String()
	}
	return q, nil
}

// Address returns the address that is asked for, without host; "": a source that has none.
func (q *Query) Address() string { return q.address }

// matchesItem reports whether an item is what is asked for, in any version and of any host.
func (q *Query) matchesItem(it *Item) bool {
	if it.Kind != q.Kind {
		return false
	}
	if q.exact != "" {
		source, _, _ := strings.Cut(it.Source, "?")
		return source == q.exact || strings.HasPrefix(source, q.exact+"//") // a folder of it
	}
	return it.address == q.address
}

func (q *Query) onHost(it *Item) bool {
	return q.host == "" || strings.HasPrefix(it.Source, q.host+"/") || strings.HasPrefix(it.Source, "oci://"+q.host+"/")
}

// selectsItem reports whether a matching item has the host and the version that are asked for. One
// without a version is selected by no constraint.
func (q *Query) selectsItem(it *Item) bool {
	if !q.onHost(it) {
		return false
	}
	if q.allow.String() == "" {
		return true
	}
	v, err := addr.ParseVersion(it.Version)
	if err != nil || q.allow.Allows(v) {
		return err == nil
	}
	core, _, pre := strings.Cut(it.Version, "-")
	if _, exact := addr.ParseVersion(q.allow.String()); !pre || exact == nil {
		return false
	}
	v, err = addr.ParseVersion(core) // who asks for a range wants its candidates, too
	return err == nil && q.allow.Allows(v)
}

// Verdict is what is known about the version of an item in use.
type Verdict struct {
	Newest string // that fits
	Status string // "": nothing against it
	Better string // the lowest higher version with nothing against it; "": none
	Unread bool   // it could not be found out
}

// Outdated is a state that is behind the newest version of something, or uses what it should not.
type Outdated struct {
	UsedBy
	Better string `json:"better,omitempty"` // the first higher version that is neither withdrawn, deprecated nor flagged
}

// Items returns what the readable states use.
func (x *Index) Items(may func(state, workspace string) bool) []Item {
	var all []Item
	for it, users := range x.users {
		if slices.ContainsFunc(users, func(e *Entry) bool { return may(e.State, e.Workspace) }) {
			all = append(all, *it)
		}
	}
	return all
}

// Outdated returns what the readable states use that is not the newest or has a status.
func (x *Index) Outdated(may func(state, workspace string) bool, verdicts map[Item]Verdict) []Outdated {
	all := []Outdated{}
	for it, users := range x.users {
		v := verdicts[*it]
		if v.Status == "" && (v.Newest == "" || v.Newest == it.Version) {
			continue
		}
		for _, e := range users {
			if len(all) == maxAnswer || !may(e.State, e.Workspace) {
				continue
			}
			u := e.asUser(it)
			u.Newest = v.Newest
			u.Status = v.Status
			all = append(all, Outdated{u, v.Better})
		}
	}
	slices.SortFunc(all, func(a, b Outdated) int { return compareUses(a.UsedBy, b.UsedBy) })
	return all
}

// Address returns the address without host, "" of a module that has none.
func (it *Item) Address() string { return it.address }

// Count is how many states use a version of a module.
type Count struct {
	Module, Version string
	States          int
}

// CountModules returns the versions of modules that most states use, at most limit, and then the sum of
// the others as "other".
func (x *Index) CountModules(limit int) []Count {
	items := map[[2]string][]*Item{} // also folders of one module
	for it := range x.users {
		if it.Kind == addr.KindModule {
			at := [2]string{cmp.Or(it.address, it.Source), it.Version}
			items[at] = append(items[at], it)
		}
	}
	all := make([]Count, 0, len(items))
	for at, same := range items {
		n := len(x.users[same[0]])
		if len(same) > 1 {
			states := map[*Entry]bool{}
			for _, it := range same {
				for _, e := range x.users[it] {
					states[e] = true
				}
			}
			n = len(states)
		}
		all = append(all, Count{at[0], at[1], n})
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.States, a.States), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Version, b.Version))
	})
	if len(all) > limit {
		rest := Count{Module: "other"}
		for _, c := range all[limit:] {
			rest.States += c.States
		}
		all = append(all[:limit], rest)
	}
	return all
}
