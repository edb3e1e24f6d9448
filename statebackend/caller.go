// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// ErrAnother says that the lock of an id was taken for another caller, or that the lock that is
// held has another id of the same hash. The wrapping error names the holder.
var ErrAnother = errors.New("lock held by another caller")

type callerKey struct{}

// caller is the caller of a server: an identity that outlives its tokens, and a name for people.
type caller struct{ identity, name string }

// WithCaller returns a context for requests of one caller of a server, by its identity and the name
// under which versions are recorded; "" if it is not known. A lock that is taken with it is found
// only by the same caller: for another the id is held, and writes and releases are ErrAnother.
// [Store.ForceUnlock] ends it for any. A context without caller goes by the id alone, as does a
// lock taken without one, unless there is [Options].Maker.
func WithCaller(ctx context.Context, identity, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, &caller{identity, name})
}

// SetCaller sets the caller of a context of [WithCaller], before the context has other users: for a
// server that knows the caller only when it has decided about the request.
func SetCaller(ctx context.Context, identity, name string) {
	if of, ok := ctx.Value(callerKey{}).(*caller); ok {
		*of = caller{identity, name}
	}
}

type toolKey struct{}

// WithTool returns a context whose writes are recorded as those of the tool in a User-Agent
// header, as OpenTofu/1.12.6. Other agents change nothing: `backend "http"` of both tools sends
// Go-http-client/1.1.
func WithTool(ctx context.Context, agent string) context.Context {
	if tool := format.FindTool(agent); tool != "" {
		return context.WithValue(ctx, toolKey{}, tool)
	}
	return ctx
}

func toolOf(ctx context.Context, otherwise string) string {
	if tool, ok := ctx.Value(toolKey{}).(string); ok {
		return tool
	}
	return otherwise
}

func callerOf(ctx context.Context) string {
	if of, ok := ctx.Value(callerKey{}).(*caller); ok {
		return of.identity
	}
	return ""
}

// callerName returns the caller of this server, or this client where the registry is a server.
func callerName(ctx context.Context, r *oci.Repo) string {
	if of, ok := ctx.Value(callerKey{}).(*caller); ok {
		return of.name
	}
	return text.Clip(text.Line(r.Caller()), maxCallerName)
}

// maxCallerName bounds a name in a version, in bytes.
const maxCallerName = 128

// isAnother reports whether a lock of this maker is not the caller's; "" is the server itself.
func isAnother(o *Options, maker, caller string) bool {
	return caller != "" && maker != caller && (maker != "" || o.Maker != nil)
}

func anotherHolder(locked *LockedError) error { return fmt.Errorf("%w: %w", ErrAnother, locked) }

func (l *Lock) checkCaller(ctx context.Context) error {
	if !isAnother(l.s.o, l.x.info.Caller, callerOf(ctx)) {
		return nil
	}
	return anotherHolder(l.x.lockedBy(ctx, l.hold.Claim))
}
