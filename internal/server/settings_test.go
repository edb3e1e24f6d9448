// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/syntax"
)

func newSettings(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestRead: a file sets what it names; an empty value is none.
func TestRead(t *testing.T) {
	s, want := server.Defaults(), server.Defaults()
	ttl := &s.Archives.TTL // as a flag is bound
	must.Succeed(t, s.Read(newSettings(t, `
listen = ""
grace  = "1m"
archives {
  ttl = "2h"
}
cache {
  blobs = "20GiB"
}
gc {
  interval = "0"
}
`)))
	want.File, want.Grace, want.Archives.TTL, want.Cache.Blobs, want.GC.Interval = s.File, "1m", "2h", "20GiB", "0"
	if diff := cmp.Diff(want, s, cmp.Comparer(func(_, _ hcl.Range) bool { return true })); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if *ttl != "2h" {
		t.Errorf("a field of a block is %q for who has its address, want 2h", *ttl)
	}
}

// TestReadRefuses checks that each mistake in a file is reported with its line.
func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no duration", "\ndrain = \"soon\"\n", `okara.hcl:2: drain "soon" is not a duration`},
		{"no time at all", "archives {\n  ttl = \"0s\"\n}\n", `okara.hcl:1: ttl "0s" is not a duration`},
		{"before now", "gc {\n  interval = \"-1h\"\n}\n", `okara.hcl:1: interval "-1h" is not a duration`},
		{"collect everything", "gc {\n  min_age = \"0\"\n}\n", `okara.hcl:1: min_age "0" is not a duration`},
		{"no size", "cache {\n  blobs = \"20 GiB\"\n}\n", `okara.hcl:1: blobs "20 GiB" is not a size`},
		{"more than there is", "cache {\n  blobs = \"99999999TiB\"\n}\n", `is not a size`},
		{"no interval", "tfe {\n  snapshot_interval = \"-1s\"\n}\n", `okara.hcl:1: snapshot_interval "-1s" is not a duration`},
		{"no memory", "tfe {\n  memory = \"much\"\n}\n", `okara.hcl:1: memory "much" is not a size`},
		{"too little memory", "tfe {\n  memory = \"1MiB\"\n}\n", `okara.hcl:1: memory "1MiB" is less than 64MiB`},
		{"unknown", "\n\ncolour = 1\n", "okara.hcl:3: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := server.Defaults().Read(newSettings(t, tt.text))
			if _, ok := errors.AsType[*syntax.SettingError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
