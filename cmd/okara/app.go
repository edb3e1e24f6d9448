// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"runtime/debug"

	"go.opentelemetry.io/otel/trace"
)

// app is this process for one command line: its streams and environment, and how
// results and notes are printed. Commands take it, or what reaches further with
// it: registries for OCI registries, upstreams for the hosts of others.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	version  string

	json  bool
	quiet bool
	debug bool

	printed bool                  // a result is on stdout
	used    func() usedCredential // what the last request to a registry was made with; nil: none was
	tracer  trace.TracerProvider  // nil: nothing is traced
}

// version is the module version of the binary, or "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (a *app) userAgent() string { return "okara/" + a.version }

// logger is the debug log of --debug, nil without it.
func (a *app) logger() *slog.Logger {
	if !a.debug {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// warnLogger shows warnings to the user, and everything with --debug.
func (a *app) warnLogger() *slog.Logger {
	if l := a.logger(); l != nil {
		return l
	}
	level := slog.LevelWarn
	if a.quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime}))
}

func withoutTime(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}
