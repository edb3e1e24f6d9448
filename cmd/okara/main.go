// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for systems without time zone data

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/httpserve"
	_ "github.com/seed-141914ff/okara/internal/startup"
	"github.com/seed-141914ff/okara/internal/upstream"
)

func main() {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	httpserve.FallbackRoots(os.Getenv)
	os.Exit(mainCode())
}

// mainCode runs the command line of the process. The first interrupt ends its
// context; a second one is not caught and ends the process at once.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return runCommand(ctx, calledAsTool(os.Args, os.Getenv), os.Stdin, os.Stdout, os.Stderr, os.Getenv)
}

func runCommand(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	return cli.Run(ctx, &cli.App{In: in, Out: out, Err: errOut, Getenv: getenv}, newRoot, args)
}
