// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/scan"
)

const report = `{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[
{"id":"A","properties":{"security-severity":"9.5"}},
{"id":"B","properties":{"security-severity":7.0}},
{"id":"C","defaultConfiguration":{"level":"note"}}]}},
"results":[
{"ruleId":"A","ruleIndex":0,"level":"error"},{"ruleId":"B","ruleIndex":1},{"ruleId":"B"},{"ruleId":"C"},
{"ruleId":"D","level":"error"},{"ruleId":"D"},
{"ruleId":"A","kind":"pass"},{"ruleId":"A","suppressions":[{}]},{"ruleId":"D","level":"none"}]}]}`

// newScanner writes a scanner for the test: a shell script that ends with body.
func newScanner(t *testing.T, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scanner")
	must.Succeed(t, os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	return file
}

func TestRunCountsBySeverity(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "report"), []byte(report), 0o600))
	got := must.Get(scan.Run(t.Context(), scan.Options{Scanner: newScanner(t, `cat "$2/report"`) + " --fast", Dir: dir}))(t)
	if diff := cmp.Diff(scan.Counts{Critical: 1, High: 3, Medium: 1, Low: 1}, got.Counts); diff != "" || got.Tool != "scanner" {
		t.Errorf("tool %q, %s", got.Tool, diff)
	}
}

func TestBlocks(t *testing.T) {
	medium := scan.Counts{Medium: 1}
	for level, want := range map[string]bool{"": false, "low": true, "medium": true, "high": false, "critical": false} {
		must.Equal(t, level, medium.Blocks(level), want)
	}
}

func TestRunErrors(t *testing.T) {
	for name, test := range map[string]struct {
		scanner string
		want    error
		text    string
	}{
		"missing":   {"/nowhere/scanner", scan.ErrMissing, "/nowhere/scanner"},
		"none":      {"", scan.ErrMissing, ""},
		"fails":     {newScanner(t, "echo no database >&2; exit 3"), scan.ErrFailed, "no database"},
		"not SARIF": {newScanner(t, "echo '{}'"), scan.ErrFailed, "not SARIF"},
		"not JSON":  {newScanner(t, "echo hello"), scan.ErrFailed, "not SARIF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scan.Run(t.Context(), scan.Options{Scanner: test.scanner, Dir: t.TempDir()})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

func TestRunStopsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scan.Run(ctx, scan.Options{Scanner: newScanner(t, "exec sleep 60"), Dir: t.TempDir()}); err == nil {
		t.Error("a cancelled scan succeeded")
	}
}

// TestTrivyArguments: the arguments, and temporary files of its own, in which Trivy 0.72 keeps modules; interop runs the
// real program.
func TestTrivyArguments(t *testing.T) {
	bin := t.TempDir()
	calls := filepath.Join(t.TempDir(), "calls")
	fake := "#!/bin/sh\necho \"$@\" >> " + calls + "\necho kept > \"$TMPDIR/kept\"\necho '{\"version\":\"2.1.0\",\"runs\":[]}'\n"
	must.Succeed(t, os.WriteFile(filepath.Join(bin, "trivy"), []byte(fake), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, o := range []scan.Options{{Dir: "d"}, {Dir: "d", Target: scan.Provider, Database: "db"}, {Dir: "d", Target: scan.Source, Database: "db"}} {
		o.Scanner = scan.Trivy
		must.Get(scan.Run(t.Context(), o))(t)
	}
	got := must.Get(os.ReadFile(calls))(t)
	want := `config --skip-check-update --quiet --exit-code 0 --format sarif d
rootfs --scanners vuln --quiet --exit-code 0 --cache-dir db --skip-db-update --skip-java-db-update --offline-scan --format sarif d
rootfs --quiet --format cyclonedx --skip-db-update --skip-java-db-update --offline-scan d
fs --scanners vuln --quiet --exit-code 0 --cache-dir db --skip-db-update --skip-java-db-update --offline-scan --format sarif d
`
	must.Match(t, "value", string(got), want)
	if left := must.Get(os.ReadDir(temporary))(t); len(left) != 0 {
		t.Errorf("the next scan finds %v", left)
	}
}
