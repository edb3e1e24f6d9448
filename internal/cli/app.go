// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
)

// App is this process for one command line: streams, environment, printing. Commands take it, or a
// type that embeds it, as [Registries].
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Version  string // of the program; set by Run

	JSON   bool
	Quiet  bool
	Debug  bool
	DryRun bool // of commands with AddDryRun

	rehearses bool // a command has --dry-run, by AddDryRun or its own

	Printed bool                 // a result is on stdout
	Tracer  trace.TracerProvider // nil: no tracing

	progress func(depot.Event) // draws progress bars; nil: none

	used func() usedCredential // credential of the last request to a registry; nil: no request
}

// UserAgent is the name by which okara identifies itself to servers, "okara/VERSION".
func (a *App) UserAgent() string { return "okara/" + a.Version }

// Logger returns the debug log of --debug, nil without the flag.
func (a *App) Logger() *slog.Logger {
	if !a.Debug {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// WarnLogger shows warnings to the user, and everything with --debug.
func (a *App) WarnLogger() *slog.Logger {
	if l := a.Logger(); l != nil {
		return l
	}
	return slog.New(noteHandler{a: a})
}

// noteHandler prints what packages log as the warnings of a command.
type noteHandler struct {
	a     *App
	attrs []slog.Attr
}

func (h noteHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError || level >= slog.LevelWarn && !h.a.Quiet
}

func (h noteHandler) Handle(_ context.Context, r slog.Record) error {
	var about []string
	add := func(attr slog.Attr) bool {
		about = append(about, attr.Key+" "+attr.Value.String())
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	line := "warning: " + r.Message
	if len(about) > 0 {
		line += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintln(h.a.Err, h.a.paintNote(text.Block(line)))
	return err
}

func (h noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), attrs...)
	return h
}

func (h noteHandler) WithGroup(string) slog.Handler { return h }
