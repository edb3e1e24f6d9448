// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestServeEnvironment: variables, flags first, mistakes named.
func TestServeEnvironment(t *testing.T) {
	tokens := newFile(t, "tokens", serveToken+" read:module:**\n")
	p := newServeProcess(t, []string{"OKARA_SERVE_TOKEN_FILE=" + tokens, "OKARA_SERVE_LISTEN=nonsense", "OKARA_SERVE_METRICS_LISTEN=127.0.0.1:0"})
	must.Equal(t, "without a token", status(t, http.DefaultClient, http.MethodGet, p.url+"/v1/modules/net/vpc/aws/versions", ""), 401)
	must.Equal(t, "/metrics, 404, as it has a listener of its own", status(t, http.DefaultClient, http.MethodGet, p.url+"/metrics", ""), 404)
	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, p.log)
	}
	var log lockedBuffer
	code := runCommand(t.Context(), []string{"serve"}, strings.NewReader(""), &log, &log, func(name string) string {
		return map[string]string{"OKARA_SERVE_DRAIN": "long", "OKARA_SERVE_ANONYMOUS_READ": "perhaps"}[name]
	})
	if text := log.String(); code != cli.ExitUsage || !strings.Contains(text, "OKARA_SERVE_DRAIN: ") || !strings.Contains(text, "OKARA_SERVE_ANONYMOUS_READ: ") {
		t.Errorf("exit %d: %s", code, text)
	}
}
