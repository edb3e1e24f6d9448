// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-141914ff/okara/internal/depot"
)

// App is this process for one command line: its streams and environment, and how results
// and notes are printed. Commands take an App, or a type that embeds it, such as
// [Registries].
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Version  string // of the program; set by Run

	JSON  bool
	Quiet bool
	Debug bool

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
	level := slog.LevelWarn
	if a.Quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
}

func withoutTime(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}
