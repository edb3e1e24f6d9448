// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
)

// TestInterrupted stops waiting commands by Ctrl-C, and by cancellation.
func TestInterrupted(t *testing.T) {
	for _, cause := range []error{nil, errors.New("interrupt signal received")} {
		for _, args := range [][]string{
			{"list", "--registry", "HOST"}, {"show", "net/vpc/aws", "--registry", "HOST"}, {"list", "--server", "http://HOST"},
			{"pull", "net/vpc/aws", t.TempDir(), "--server", "http://HOST"}, {"list", "--json", "--registry", "HOST"},
		} {
			ctx, stop := context.WithCancelCause(t.Context())
			ended := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				stop(cause)
				<-ended
			}))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "HOST", s.Listener.Addr().String())
			}
			var out, errOut bytes.Buffer
			code := runCommand(ctx, args, strings.NewReader(""), &out, &errOut, func(string) string { return "" })
			close(ended)
			s.Close()
			said := out.String() + errOut.String()
			if code != cli.ExitInterrupted || !strings.Contains(said, "interrupted") || strings.Contains(said, "canceled") || strings.Contains(said, "signal received") {
				t.Errorf("%v: exit %d\n%s", args, code, said)
			}
		}
	}
}
