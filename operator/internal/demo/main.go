// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// scaleReleases is the number of versions of each Module.
const scaleReleases = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func(context.Context) error { return errors.New("OKARA_SCALE or OKARA_CHAOS says what is measured") }
	if text := os.Getenv("OKARA_SCALE"); text != "" {
		size, err := sizeOf(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "OKARA_SCALE:", err)
			os.Exit(2)
		}
		run = func(ctx context.Context) error { return scale(ctx, size, scaleReleases) }
	}
	if text := os.Getenv("OKARA_CHAOS"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "OKARA_CHAOS:", err)
			os.Exit(2)
		}
		run = func(ctx context.Context) error { return chaos(ctx, length) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\nit stopped:", err)
		os.Exit(1)
	}
}

func step(text string) { fmt.Printf("\n== %s\n", text) }

// until asks every tenth of a second, for so long at most.
func until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
