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

	"k8s.io/apimachinery/pkg/util/wait"
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
		run = func(ctx context.Context) error { return runScale(ctx, size, scaleReleases) }
	}
	if text := os.Getenv("OKARA_CHAOS"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "OKARA_CHAOS:", err)
			os.Exit(2)
		}
		run = func(ctx context.Context) error { return runChaos(ctx, length) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\nit stopped:", err)
		os.Exit(1)
	}
}

// part is a step of a measurement.
type part struct {
	text string
	run  func(context.Context) error
}

// runParts takes the parts one after the other, and prints how long each took.
func runParts(ctx context.Context, parts []part) error {
	for _, p := range parts {
		fmt.Printf("\n== %s\n", p.text)
		began := time.Now()
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.text, err)
		}
		fmt.Printf("(%s)\n", time.Since(began).Round(time.Second))
	}
	return nil
}

// pollUntil asks every tenth of a second, for so long at most.
func pollUntil(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, limit, true, func(context.Context) (bool, error) { return done() })
}
