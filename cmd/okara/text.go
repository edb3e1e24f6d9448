// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
)

// printResult writes the result of a command to stdout: v as one JSON document
// with --json, else words and a line end. No words print nothing.
func (a *app) printResult(v any, words string) error {
	return a.printExact(v, text.Block(words))
}

// printExact is printResult for a value that programs take as it is.
func (a *app) printExact(v any, value string) error {
	a.printed = true
	if !a.json {
		if value == "" {
			return nil
		}
		_, err := fmt.Fprintln(a.out, value)
		return err
	}
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// note writes a line for people to stderr, unless --quiet.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, text.Block(fmt.Sprintf(format, args...)))
	}
}

// terminal reports whether progress may be drawn on stderr.
func (a *app) terminal() bool { return !a.quiet && !a.debug && isTerminal(a.err) }

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// table aligns rows of cells; the first row is the heading.
func table(rows [][]string) string {
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

// timestamp is how tables show a time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// age is how long ago something was, for people.
func age(d time.Duration) string {
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

// orDash fills an empty cell.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// progress returns a function that draws a bar for each upload, nil where bars
// are not wanted. done removes the bars.
func (a *app) progress() (report func(depot.Event), done func()) {
	if !a.terminal() {
		return nil, func() {}
	}
	var mu sync.Mutex // guards bars
	bars := map[string]*mpb.Bar{}
	p := mpb.New(mpb.WithOutput(a.err), mpb.WithWidth(60))
	report = func(e depot.Event) {
		mu.Lock()
		defer mu.Unlock()
		// Two blobs of one item differ in size at least.
		key := e.Item + " " + strconv.FormatInt(e.Total, 10)
		bar := bars[key]
		if bar == nil {
			bar = p.AddBar(e.Total, mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(e.Item+" ")), mpb.AppendDecorators(decor.Counters(decor.SizeB1024(0), "% .1f / % .1f")))
			bars[key] = bar
		}
		bar.IncrInt64(e.Bytes)
	}
	return report, sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, bar := range bars {
			bar.Abort(true)
		}
		p.Wait()
	})
}
