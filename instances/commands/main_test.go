// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-141914ff/okara/internal/cli"
)

// TestMain lets tests start okara with the commands of this package.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"okara": okaraMain})
}

func okaraMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	os.Exit(cli.Run(ctx, a, newRoot, os.Args[1:]))
}
