// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
)

// Action is what somebody wants to do. The change of a version has names of its
// own in the audit log, such as "yank".
type Action string

// Actions of rights. Who may publish may read, who may write a state may read
// it, and Admin covers all of a kind.
const (
	Read    Action = "read"
	Publish Action = "publish" // of modules, providers and mirrors
	Write   Action = "write"   // of states
	Admin   Action = "admin"

	// List asks for a list. Everybody who is known may; what is in it is for
	// [Grant.May] to say.
	List Action = "list"

	login Action = "login" // is anything allowed at all
)

// Kind is a kind of thing, one of [addr.KindModule] and so on, or AnyKind.
type Kind string

// AnyKind stands for modules, providers and mirrors in a [Scope], and for no
// kind at all in a [Right].
const AnyKind Kind = "*"

// Everything is the address of what only the glob ** covers: the server itself,
// and whatever has no address of its own.
const Everything = "**"

// Right is what a request asks for.
type Right struct {
	Action  Action
	Kind    Kind
	Address string
}

// Server is the right to what concerns the whole server.
func Server() Right { return Right{Admin, AnyKind, Everything} }

// RightTo is the right to read or publish what a repository holds. The layout
// says what that is. Whatever else is below its states is state as well, of
// which only a right to all states tells; everything else, catalog, queue,
// instances and their ledger among it, belongs to the server.
func RightTo(l addr.Layout, action Action, repository string) Right {
	stateAction := action
	if action == Publish {
		stateAction = Write
	}
	item, ok := l.Parse(repository)
	switch {
	case ok && item.Kind == addr.KindModule:
		return Right{action, addr.KindModule, item.Module.String()}
	case ok && (item.Kind == addr.KindProvider || item.Kind == addr.KindMirror):
		return Right{action, Kind(item.Kind), item.Provider.String()}
	case ok && item.Kind == addr.KindTemplate:
		return Right{action, addr.KindTemplate, item.Template}
	case ok && item.Kind == addr.KindState:
		return Right{stateAction, addr.KindState, item.State}
	case l.BelowState(repository):
		return Right{stateAction, addr.KindState, Everything}
	}
	return Server()
}

// Scope is rights in a configuration, written "action:kind:glob": an action (read,
// publish, admin; write for states), a kind of thing (module, provider, mirror,
// state, or * for the first three) and a glob over addresses, in which * stands
// for part of a segment and ** for any number of segments.
type Scope struct {
	Action Action
	Kind   Kind
	Glob   string
}

// ParseScope parses "publish:module:acme/**".
func ParseScope(s string) (Scope, error) {
	part := strings.SplitN(s, ":", 3)
	if len(part) != 3 || part[2] == "" {
		return Scope{}, fmt.Errorf("scope %q: want ACTION:KIND:GLOB, such as read:module:acme/**", s)
	}
	scope := Scope{Action(part[0]), Kind(part[1]), part[2]}
	switch {
	case scope.Kind == AnyKind || artifacts(scope.Kind):
		if scope.Action == Read || scope.Action == Publish || scope.Action == Admin {
			return scope, nil
		}
		return Scope{}, fmt.Errorf("scope %q: the action must be read, publish or admin", s)
	case scope.Kind == addr.KindState:
		if scope.Action == Read || scope.Action == Write {
			return scope, nil
		}
		return Scope{}, fmt.Errorf("scope %q: the action for states must be read or write", s)
	}
	return Scope{}, fmt.Errorf("scope %q: the kind must be module, provider, mirror, state or *", s)
}

// MarshalText returns the written form.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Scope) String() string { return string(s.Action) + ":" + string(s.Kind) + ":" + s.Glob }

// allows reports whether the scope covers a right.
func (s Scope) allows(right Right) bool {
	if s.Kind != right.Kind && (s.Kind != AnyKind || !artifacts(right.Kind)) {
		return false
	}
	if s.Action != right.Action && s.Action != Admin && right.Action != Read {
		return false
	}
	if right.Address == Everything {
		return s.Glob == Everything
	}
	return addr.Match(s.Glob, right.Address)
}

// artifacts reports whether AnyKind stands for the kind.
func artifacts(kind Kind) bool {
	return slices.Contains([]Kind{addr.KindModule, addr.KindProvider, addr.KindMirror}, kind)
}

// AnonymousAll are the rights of everybody on a loopback listener.
func AnonymousAll() []Scope {
	return []Scope{{Admin, AnyKind, Everything}, {Write, addr.KindState, Everything}}
}

// AnonymousRead are the rights to fetch every module and provider.
func AnonymousRead() []Scope {
	return []Scope{{Read, addr.KindModule, Everything}, {Read, addr.KindProvider, Everything}, {Read, addr.KindMirror, Everything}}
}
