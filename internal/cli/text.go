// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/text"
)

// PrintResult writes the result of a command to stdout: v as one JSON document with --json,
// else words and a line end. Nothing is printed for empty words.
func (a *App) PrintResult(v any, words string) error {
	return a.PrintExact(v, text.Block(words))
}

// PrintExact is PrintResult for a value that programs need unchanged.
func (a *App) PrintExact(v any, value string) error {
	a.Printed = true
	if !a.JSON {
		if value == "" {
			return nil
		}
		_, err := fmt.Fprintln(a.Out, value)
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	out := b.String()
	if rest, ok := strings.CutPrefix(out, "{\n"); ok && a.rehearses && !strings.Contains(out, "\n  \"dry_run\": ") {
		out = "{\n  \"dry_run\": true,\n" + rest
	}
	_, err := io.WriteString(a.Out, out)
	return err
}

// Note writes a line for the user to stderr, unless --quiet.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintln(a.Err, a.paintNote(text.Block(fmt.Sprintf(format, args...))))
	}
}

// Table aligns rows of cells; the first row is the heading.
func Table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = text.Line(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// Rows returns the first n columns of a list. Only a terminal gets the heading, its first row.
func (a *App) Rows(rows [][]string, n int) string {
	if !IsTerminal(a.Out) {
		rows = rows[1:]
	}
	for i := range rows {
		rows[i] = rows[i][:n]
	}
	return Table(rows)
}

// AddLong gives a list the flag for what it has to read once more for each entry.
func AddLong(f *pflag.FlagSet, long *bool, what string) {
	f.BoolVarP(long, "long", "l", false, "also show "+what+", as on a terminal")
}

// KeepOldName lets a renamed flag be given by its old name too.
func (a *App) KeepOldName(f *pflag.FlagSet, name, old string) {
	flag := *f.Lookup(name)
	flag.Name = old
	f.AddFlag(&flag)
	a.Deprecate(f, old, "use --"+name)
}

// Deprecate hides a flag and tells who gives it, on stderr, what to do. The note of cobra would be
// on stdout, in the result.
func (a *App) Deprecate(f *pflag.FlagSet, name, note string) {
	flag := f.Lookup(name)
	flag.Hidden = true
	flag.Value = notedValue{flag.Value, func() { a.Note("flag --%s is deprecated: %s", name, note) }}
}

type notedValue struct {
	pflag.Value
	note func()
}

func (n notedValue) Set(s string) error {
	n.note()
	return n.Value.Set(s)
}

// IsLong reports whether a list shows all columns.
func (a *App) IsLong(long bool) bool { return long || IsTerminal(a.Out) && !a.JSON }

// Timestamp formats a time for tables.
func Timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Age formats a duration since an event for reading.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// OrDash returns "-" for an empty cell.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// YesNo formats a boolean for tables.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
