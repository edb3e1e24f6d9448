// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestServeDemoRefuses refuses settings with which a sample would be open to all or persistent.
func TestServeDemoRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--storage", t.TempDir()}, {"--config", "x.hcl"}, {"--registry", "127.0.0.1:1"}, {"--token-file", "x"}, {"--check"}, {"--no-ui"}, {"--tls-self-signed"}, {"--metrics-listen", "0.0.0.0:0"},
	} {
		r := okara(t, append([]string{"serve", "--demo"}, args...)...)
		if r.code != 2 || !strings.Contains(r.err, "demo") {
			t.Errorf("%q: %d: %s", args, r.code, r.err)
		}
	}
}
