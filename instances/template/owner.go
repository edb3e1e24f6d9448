// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
)

const maxOwner = 512 // bytes of an owner's ID

// Owner is the owner of an instance. Owners are compared by Kind, Issuer and ID.
type Owner struct {
	Kind   string `json:"kind"` // user, group or claim
	Issuer string `json:"issuer,omitempty"`
	ID     string `json:"id"`              // subject, name of a group, or value of a claim, unchanged
	Label  string `json:"label,omitempty"` // display name only
}

// Kinds of owners.
const (
	OwnerUser  = "user"
	OwnerGroup = "group"
	OwnerClaim = "claim"
)

// Same reports whether both are the same owner, regardless of labels.
func (o Owner) Same(other Owner) bool {
	return o.Kind == other.Kind && o.Issuer == other.Issuer && o.ID == other.ID
}

// Admits reports whether instances of a template may belong to an owner.
func (t *Template) Admits(o Owner) bool {
	if o.ID == "" || len(o.ID) > maxOwner || len(o.Issuer) > maxOwner {
		return false
	}
	if o.Kind == OwnerGroup && !t.AdmitsGroup(o.ID) {
		return false
	}
	kind, _, _ := strings.Cut(t.Owner, ":")
	return o.Kind == kind
}

// AdmitsGroup reports whether a group may own an instance.
func (t *Template) AdmitsGroup(name string) bool {
	return t.Owner == OwnerGroup && Matches(t.Groups, name)
}

// Matches reports whether a list is empty or one of its globs matches.
func Matches(globs []string, s string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		return addr.Match(glob, s)
	})
}
