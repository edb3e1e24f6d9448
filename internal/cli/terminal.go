// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// hasTerminal reports whether progress may be drawn on stderr.
func (a *App) hasTerminal() bool { return !a.Quiet && !a.Debug && IsTerminal(a.Err) }

// Colours, as the codes of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paintWords colours words on a terminal, unless the user disabled colours with NO_COLOR.
func (a *App) paintWords(to io.Writer, colour, words string) string {
	if !IsTerminal(to) || a.Getenv("NO_COLOR") != "" || a.Getenv("TERM") == "dumb" {
		return words
	}
	return "\x1b[" + colour + "m" + words + "\x1b[0m"
}

// paintNote is a note with a leading "warning:" in colour.
func (a *App) paintNote(note string) string {
	if rest, ok := strings.CutPrefix(note, "warning:"); ok {
		return a.paintWords(a.Err, yellow, "warning:") + rest
	}
	return note
}

// PrintChanges is PrintResult for lines that begin with "+", "-" or "~".
func (a *App) PrintChanges(v any, lines []string) error {
	colours := map[byte]string{'+': green, '-': red, '~': yellow}
	for i, line := range lines {
		lines[i] = text.Block(line)
		if colour := colours[(line + " ")[0]]; colour != "" {
			lines[i] = a.paintWords(a.Out, colour, lines[i])
		}
	}
	return a.PrintExact(v, strings.Join(lines, "\n"))
}

// Steps returns a function to call after each of total steps, which draws one more bar
// beside those of [App.Progress].
func (a *App) Steps(item string, total int) func() {
	report := a.progress
	if report == nil || total == 0 {
		return func() {}
	}
	return func() { report(depot.Event{Item: item, Bytes: 1, Total: int64(total), Count: true}) }
}

// Progress returns a function that draws a bar for each upload, nil if no bars are to be
// drawn. done removes the bars.
func (a *App) Progress() (report func(depot.Event), done func()) {
	if !a.hasTerminal() {
		return nil, func() {}
	}
	var mu sync.Mutex // guards bars
	bars := map[string]*mpb.Bar{}
	p := mpb.New(mpb.WithOutput(a.Err), mpb.WithWidth(60))
	report = func(e depot.Event) {
		mu.Lock()
		defer mu.Unlock()
		// Two blobs of one item differ at least in size.
		key := e.Item + " " + strconv.FormatInt(e.Total, 10)
		bar := bars[key]
		if bar == nil {
			bar = p.AddBar(e.Total, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(text.Line(e.Item)+" ")), mpb.AppendDecorators(barCounters(e)))
			bars[key] = bar
		}
		bar.IncrInt64(e.Bytes)
	}
	a.progress = report
	return report, sync.OnceFunc(func() {
		a.progress = nil
		mu.Lock()
		defer mu.Unlock()
		for _, bar := range bars {
			bar.Abort(true)
		}
		p.Wait()
	})
}

// barCounters returns the figures beside a bar.
func barCounters(e depot.Event) decor.Decorator {
	if e.Count {
		return decor.CountersNoUnit("%d / %d")
	}
	return decor.Counters(decor.SizeB1024(0), "% .1f / % .1f")
}
