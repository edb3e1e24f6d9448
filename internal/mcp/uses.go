// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
)

type usedByIn struct {
	Address  string `json:"address" desc:"of a module or provider, with @VERSION or @CONSTRAINT: acme/eks/aws@< 20.2"`
	Provider bool   `json:"provider,omitempty" desc:"the address is that of a provider"`
	Page     int    `json:"page,omitempty"`
}

type usedByOut struct {
	Address    string       `json:"address"`
	Total      int          `json:"total" desc:"states that this token may read"`
	Others     int          `json:"others,omitempty" desc:"further states and instances that use any version; 0: none, or too few to say"`
	SomeOthers bool         `json:"some_others,omitempty"`
	NoRecord   int          `json:"not_recorded,omitempty" desc:"states that do not say what they use"`
	Unknown    int          `json:"unknown_versions,omitempty" desc:"states that may use it, without saying a version"`
	Partial    bool         `json:"partial,omitempty" desc:"not all states were read yet"`
	States     []stateUsing `json:"states"`
	paged
}

// stateUsing is a state and what it uses, without who wrote it: a model need not know.
type stateUsing struct {
	State     string `json:"state"`
	Workspace string `json:"workspace"`
	Instance  string `json:"instance,omitempty" desc:"id of an instance, in place of a state"`
	Uses      string `json:"uses" desc:"source of the module or provider"`
	Version   string `json:"version,omitempty"`
	Since     string `json:"since,omitempty"`
	Newest    string `json:"newest,omitempty" desc:"newer one that fits"`
	Status    string `json:"status,omitempty" desc:"withdrawn, deprecated, or level of a finding"`
	Better    string `json:"better,omitempty" desc:"first higher version with nothing against it"`
}

func newStateUsing(u usage.UsedBy, better string) stateUsing {
	return stateUsing{cleanLine(u.State, 200), cleanLine(u.Workspace, 100), cleanLine(u.Instance, 60), cleanLine(u.Source, 300), cleanLine(u.Version, 60), u.Since.UTC().Format(time.DateOnly), u.Newest, u.Status, better}
}

func showUsers(ctx context.Context, s Source, in usedByIn) (out usedByOut, err error) {
	q, err := usage.ParseQuery(in.Address, in.Provider)
	if err != nil {
		return out, &wrongError{text.Excerpt(err.Error())}
	}
	if s.Users == nil {
		return out, &wrongError{noStates}
	}
	a, err := s.Users(ctx, in.Address, q)
	if err != nil {
		return out, err
	}
	out = usedByOut{Address: text.Excerpt(in.Address), Total: len(a.States), Others: a.Others, SomeOthers: a.Some, NoRecord: a.Bare, Unknown: a.Loose, Partial: !a.Complete}
	all := []stateUsing{}
	for _, u := range a.States {
		all = append(all, newStateUsing(u, ""))
	}
	out.States, out.paged, err = fitPage(out, all, in.Page)
	return out, err
}

const noStates = "this server knows no states"

type outdatedIn struct {
	Filter string `json:"filter,omitempty" desc:"a word in the state, the source or the status"`
	Page   int    `json:"page,omitempty"`
}

type outdatedOut struct {
	Total   int          `json:"total"`
	Partial bool         `json:"partial,omitempty" desc:"not all states were read yet"`
	States  []stateUsing `json:"states"`
	paged
}

func showOutdated(ctx context.Context, s Source, in outdatedIn) (out outdatedOut, err error) {
	if s.Outdated == nil {
		return out, &wrongError{noStates}
	}
	found, complete, err := s.Outdated(ctx)
	if err != nil {
		return out, err
	}
	all := []stateUsing{}
	for _, o := range found {
		if strings.Contains(o.State+" "+o.Source+" "+o.Status, in.Filter) {
			all = append(all, newStateUsing(o.UsedBy, o.Better))
		}
	}
	out = outdatedOut{Total: len(all), Partial: !complete}
	out.States, out.paged, err = fitPage(out, all, in.Page)
	return out, err
}
