// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Action is what a request does; the audit log names changes more exactly.
type Action string

// Actions of rights. All but Use include Read, and Admin all of a kind.
const (
	Read    Action = "read"
	Publish Action = "publish" // of modules, providers and mirrors
	Write   Action = "write"   // of states
	Run     Action = "run"     // of states: runs on the server
	Use     Action = "use"     // of instances: launch them, and act on one's own
	Approve Action = "approve" // of instances: approve requests of other callers
	Admin   Action = "admin"

	// List is every identified caller's; the rows are filtered by Read.
	List Action = "list"

	LogIn Action = "login" // whether the caller has any right at all
)

// Kind is a kind of object, one of [addr.KindModule] and so on, or AnyKind.
type Kind string

// AnyKind is modules, providers and mirrors in a [Scope], no kind in a [Right].
const AnyKind Kind = "*"

// Everything is the address of what only ** covers: the server, and what has no address.
const Everything = "**"

// Somewhere is any object of a kind, checked first where the address is in the body, which decides
// later.
const Somewhere = "?"

// Right is what a request needs.
type Right struct {
	Action  Action
	Kind    Kind
	Address string
}

// String returns the right as a scope that grants it.
func (r Right) String() string {
	glob := strings.TrimSuffix(r.Address, "/") // of any workspace, see [AnyStateRight]
	if r.Address == Somewhere {
		glob = "NAME"
	}
	return Scope{r.Action, r.Kind, glob}.String()
}

// Lacks precedes the missing right in each refusal, by which clients recognize one.
const Lacks = "it lacks the right "

// Server returns the right to everything that concerns the whole server.
func Server() Right { return Right{Admin, AnyKind, Everything} }

// StateRight returns the right to a workspace of a state, "shop/dev", or with workspace "" to all,
// "shop". A split workspace's repository has that workspace's address; others in it need the whole
// state. A name that no state can have needs all states.
func StateRight(l addr.Layout, action Action, name, workspace string) Right {
	if _, err := l.StateRepo(name); err != nil {
		return Right{action, addr.KindState, Everything}
	}
	if of, its, split := l.SplitState(name); split {
		if name = of; workspace == "default" {
			workspace = its
		} else {
			workspace = ""
		}
	}
	if workspace != "" {
		name += "/" + workspace
	}
	return Right{action, addr.KindState, name}
}

// AnyStateRight returns the right to some workspace of a state, "shop/": for lists checked row by
// row, and requests that name it in the body.
func AnyStateRight(l addr.Layout, action Action, name string) Right {
	right := StateRight(l, action, name, "default")
	if _, _, split := l.SplitState(name); !split && right.Address != Everything {
		right.Address = name + "/"
	}
	return right
}

// RightTo returns the right to a repository's content, by its kind in the layout. Others below
// states need all states. The rest, catalog, queue, instances, ledger, what decides about runs, is
// the server's.
func RightTo(l addr.Layout, action Action, repository string) Right {
	stateAction := action
	if action == Publish {
		stateAction = Write
	}
	item, ok := l.Parse(repository)
	switch {
	case l.DecidesRuns(repository):
		return Server()
	case ok && item.Kind == addr.KindModule:
		return Right{action, addr.KindModule, item.Module.String()}
	case ok && (item.Kind == addr.KindProvider || item.Kind == addr.KindMirror):
		return Right{action, Kind(item.Kind), item.Provider.String()}
	case ok && item.Kind == addr.KindTemplate:
		return Right{action, addr.KindTemplate, item.Template}
	case ok && item.Kind == addr.KindState: // tags and blobs belong to all workspaces, or to the only one
		if _, _, split := l.SplitState(item.State); split {
			return StateRight(l, stateAction, item.State, "default")
		}
		return StateRight(l, stateAction, item.State, "")
	case l.BelowState(repository):
		return Right{stateAction, addr.KindState, Everything}
	}
	return Server()
}

// Scope grants rights, written "action:kind:glob": kind is module, provider, mirror, state,
// template, instance, or * for the first three; in the glob * is part of a segment, ** any number.
// For states it matches NAME, with all workspaces, or NAME/WORKSPACE. An instance has its
// template's address; nothing matches [addr.TemplateReserved].
type Scope struct {
	Action Action
	Kind   Kind
	Glob   string
}

// ParseScope parses a scope such as "publish:module:acme/**".
func ParseScope(s string) (Scope, error) {
	scope, err := parseScope(s)
	if err == nil && strings.ContainsAny(scope.Glob, "{}") {
		return Scope{}, fmt.Errorf("scope %q: only rights in rules may name claims", s)
	}
	return scope, err
}

func parseScope(s string) (Scope, error) {
	part := strings.SplitN(s, ":", 3)
	if len(part) != 3 || part[2] == "" {
		return Scope{}, fmt.Errorf("scope %q: must be ACTION:KIND:GLOB, such as read:module:acme/**", s)
	}
	scope := Scope{Action(part[0]), Kind(part[1]), part[2]}
	actions, of := actionsOf(scope.Kind)
	switch {
	case actions == nil:
		return Scope{}, fmt.Errorf("scope %q: the kind must be module, provider, mirror, state, template, instance or *", s)
	case !slices.Contains(actions, scope.Action):
		names := make([]string, len(actions))
		for i, a := range actions {
			names[i] = string(a)
		}
		return Scope{}, fmt.Errorf("scope %q: the action%s must be %s or %s", s, of, strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	}
	return scope, nil
}

// actionsOf returns a kind's actions, and words about it; nil: no such kind.
func actionsOf(kind Kind) (actions []Action, of string) {
	switch {
	case kind == AnyKind || isArtifact(kind):
		return []Action{Read, Publish, Admin}, ""
	case kind == addr.KindState:
		return []Action{Read, Write, Run}, " for states"
	case kind == addr.KindTemplate:
		return []Action{Read, Publish, Admin}, " for templates"
	case kind == addr.KindInstance:
		return []Action{Use, Read, Approve, Admin}, " for instances"
	}
	return nil, ""
}

// MarshalText returns the written form.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Scope) String() string { return string(s.Action) + ":" + string(s.Kind) + ":" + s.Glob }

// Allows reports whether the scope covers a right.
func (s Scope) Allows(right Right) bool {
	if !s.coversAction(right.Kind, right.Action) {
		return false
	}
	switch right.Address {
	case Everything:
		return s.Glob == Everything
	case Somewhere:
		return true
	}
	if right.Kind == addr.KindState {
		return s.fitsState(right.Address)
	}
	if right.Kind == addr.KindTemplate || right.Kind == addr.KindInstance {
		if namespace, _, _ := strings.Cut(right.Address, "/"); namespace == addr.TemplateReserved {
			return false
		}
	}
	glob := s.Glob
	if right.Kind != addr.KindTemplate && right.Kind != addr.KindInstance {
		glob = strings.ToLower(glob) // the case of modules and providers makes no difference
	}
	return addr.Match(glob, right.Address)
}

// fitsState reports whether the glob matches a state or workspace, any for [AnyStateRight].
func (s Scope) fitsState(address string) bool {
	name, workspace, inside := strings.Cut(address, "/")
	switch {
	case addr.Match(s.Glob, name):
		return true
	case inside && workspace == "":
		return addr.MatchBelow(s.Glob, name)
	}
	return inside && addr.Match(s.Glob, address)
}

// coversAction reports whether the scope covers an action on a kind. Use of instances reads
// templates, not others' instances.
func (s Scope) coversAction(kind Kind, action Action) bool {
	if s.Kind == addr.KindInstance && kind == addr.KindTemplate {
		return action == Read && (s.Action == Use || s.Action == Admin)
	}
	if s.Kind != kind && (s.Kind != AnyKind || !isArtifact(kind)) {
		return false
	}
	return s.Action == action || s.Action == Admin || action == Read && s.Action != Use
}

// isArtifact reports whether AnyKind stands for the kind.
func isArtifact(kind Kind) bool {
	return slices.Contains([]Kind{addr.KindModule, addr.KindProvider, addr.KindMirror}, kind)
}

// AnonymousAll returns the rights of every caller on a loopback listener.
func AnonymousAll() []Scope {
	return []Scope{
		{Admin, AnyKind, Everything}, {Write, addr.KindState, Everything}, {Run, addr.KindState, Everything},
		{Admin, addr.KindTemplate, Everything}, {Admin, addr.KindInstance, Everything},
	}
}

// AnonymousRead returns the rights to fetch every module and provider.
func AnonymousRead() []Scope {
	return []Scope{{Read, addr.KindModule, Everything}, {Read, addr.KindProvider, Everything}, {Read, addr.KindMirror, Everything}}
}
