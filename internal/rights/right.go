// SPDX-License-Identifier: Apache-2.0

package rights

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
	Run     Action = "run"     // of states: runs on the server
	Use     Action = "use"     // of instances: launch, and act on what is one's own
	Approve Action = "approve" // of instances: let through what others asked for
	Admin   Action = "admin"

	// List asks for a list. Everybody who is known may; what is in it is for
	// [Grant.May] to say.
	List Action = "list"

	LogIn Action = "login" // is anything allowed at all
)

// Kind is a kind of thing, one of [addr.KindModule] and so on, or AnyKind.
type Kind string

// AnyKind stands for modules, providers and mirrors in a [Scope], and for no
// kind at all in a [Right].
const AnyKind Kind = "*"

// Everything is the address of what only the glob ** covers: the server itself,
// and whatever has no address of its own.
const Everything = "**"

// Somewhere is the address of a right to anything of its kind, for a request
// whose address is in the body: its right is asked for when that was read.
const Somewhere = "?"

// Right is what a request asks for.
type Right struct {
	Action  Action
	Kind    Kind
	Address string
}

// String writes a right as a rule that gives it would.
func (r Right) String() string { return Scope{r.Action, r.Kind, r.Address}.String() }

// Server is the right to what concerns the whole server.
func Server() Right { return Right{Admin, AnyKind, Everything} }

// StateRight is the right to a workspace of a state, wherever it is asked for: to
// "shop/dev". Workspace "" stands for all of them: "shop". What is stored in the
// repository of a split workspace has the address of that workspace, and whatever
// else may be there is for who has the right to all of the state that is split. A
// name that no state can have takes the right to all states.
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

// AnyStateRight is the right to some workspace of a state, whichever: its address is
// "shop/". It is for lists, whose rows are asked for one by one, and for requests
// that name the workspace in the body.
func AnyStateRight(l addr.Layout, action Action, name string) Right {
	right := StateRight(l, action, name, "default")
	if _, _, split := l.SplitState(name); !split && right.Address != Everything {
		right.Address = name + "/"
	}
	return right
}

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
	case ok && item.Kind == addr.KindState: // tags and blobs are of all workspaces, or of the only one
		if _, _, split := l.SplitState(item.State); split {
			return StateRight(l, stateAction, item.State, "default")
		}
		return StateRight(l, stateAction, item.State, "")
	case l.BelowState(repository):
		return Right{stateAction, addr.KindState, Everything}
	}
	return Server()
}

// Scope is rights in a configuration, written "action:kind:glob": an action, a kind
// of thing (module, provider, mirror, state, template, instance, or * for the first
// three) and a glob over addresses, in which * stands for part of a segment and **
// for any number of segments. The glob of a state fits if it matches its name, with
// all workspaces, or NAME/WORKSPACE. The address of an instance is that of its
// template; no glob matches those of the namespace [addr.TemplateReserved].
type Scope struct {
	Action Action
	Kind   Kind
	Glob   string
}

// ParseScope parses "publish:module:acme/**".
func ParseScope(s string) (Scope, error) {
	scope, err := parseScope(s)
	if err == nil && strings.ContainsAny(scope.Glob, "{}") {
		return Scope{}, fmt.Errorf("scope %q: only the rights of a rule name claims", s)
	}
	return scope, err
}

func parseScope(s string) (Scope, error) {
	part := strings.SplitN(s, ":", 3)
	if len(part) != 3 || part[2] == "" {
		return Scope{}, fmt.Errorf("scope %q: want ACTION:KIND:GLOB, such as read:module:acme/**", s)
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

// actionsOf are the actions that a scope of the kind may have; nil: there is no
// such kind.
func actionsOf(kind Kind) (actions []Action, of string) {
	switch {
	case kind == AnyKind || artifacts(kind):
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
	if !s.covers(right.Kind, right.Action) {
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
	return addr.Match(s.Glob, right.Address)
}

// fitsState reports whether the glob matches a state by its name, which has no "/",
// or the workspace: of [AnyStateRight] any.
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

// covers reports whether the scope covers an action on something of a kind. Who
// may use instances may read their templates, but not what others launched.
func (s Scope) covers(kind Kind, action Action) bool {
	if s.Kind == addr.KindInstance && kind == addr.KindTemplate {
		return action == Read && (s.Action == Use || s.Action == Admin)
	}
	if s.Kind != kind && (s.Kind != AnyKind || !artifacts(kind)) {
		return false
	}
	return s.Action == action || s.Action == Admin || action == Read && s.Action != Use
}

// artifacts reports whether AnyKind stands for the kind.
func artifacts(kind Kind) bool {
	return slices.Contains([]Kind{addr.KindModule, addr.KindProvider, addr.KindMirror}, kind)
}

// AnonymousAll are the rights of everybody on a loopback listener.
func AnonymousAll() []Scope {
	return []Scope{
		{Admin, AnyKind, Everything}, {Write, addr.KindState, Everything}, {Run, addr.KindState, Everything},
		{Admin, addr.KindTemplate, Everything}, {Admin, addr.KindInstance, Everything},
	}
}

// AnonymousRead are the rights to fetch every module and provider.
func AnonymousRead() []Scope {
	return []Scope{{Read, addr.KindModule, Everything}, {Read, addr.KindProvider, Everything}, {Read, addr.KindMirror, Everything}}
}
