// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
)

// TestAuditIsSafe: a user agent breaks no line of the audit log, reverses no text, and is bounded.
func TestAuditIsSafe(t *testing.T) {
	var log bytes.Buffer
	g := newGuard(t, access.Options{Audit: slog.New(slog.NewTextHandler(&log, nil))})
	r := asking("/v1/modules", "")
	r.Header.Set("User-Agent", "tofu\u202e\x1b[2J\u200b "+strings.Repeat("x", 1<<10)+" end")
	g.Record(r, access.Record{})
	if got := log.String(); !strings.Contains(got, "tofu\ufffd\ufffd[2J\ufffd xxx") || strings.Contains(got, "end") {
		t.Errorf("got %s", got)
	}
}
