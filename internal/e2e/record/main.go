// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Dimensions of the picture, in characters and pixels.
const (
	columns, rows = 104, 28
	width, height = 860, 540
	lineHeight    = 18
	longest       = time.Second            // longest wait that is shown
	ofCommand     = 700 * time.Millisecond // minimum before a command
	ofLine        = 60 * time.Millisecond  // minimum before another line
	atEnd         = 6 * time.Second        // before the animation restarts
)

// line is a line that the script printed, and the time at which it appears.
type line struct {
	text string
	at   time.Duration
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: record SCRIPT OUT.svg")
		os.Exit(2)
	}
	lines, err := run(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(draw(lines)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// run returns what a script prints on stdout, and copies it to our own.
func run(script string) (lines []line, err error) {
	cmd := exec.Command("sh", script)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	last := time.Now()
	now := time.Duration(0)
	read := bufio.NewScanner(io.TeeReader(out, os.Stdout))
	for read.Scan() {
		shortest := ofLine
		if strings.HasPrefix(read.Text(), "$ ") {
			shortest = ofCommand
		}
		now = now + min(max(time.Since(last), shortest), longest)
		last = time.Now()
		lines = append(lines, line{read.Text(), now})
	}
	return lines, errors.Join(read.Err(), cmd.Wait())
}

func draw(lines []line) string {
	total := atEnd
	if len(lines) > 0 {
		total += lines[len(lines)-1].at
	}
	percent := func(at time.Duration) string { return fmt.Sprintf("%.2f%%", 100*float64(at)/float64(total)) }
	var style, text, scroll strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&style, "@keyframes l%d{0%%{visibility:hidden}%s{visibility:visible}}\n", i, percent(l.at))
		class, shown := classOf(l.text)
		fmt.Fprintf(&text, `<text class="%s" style="animation-name:l%d" x="16" y="%d">%s</text>`+"\n", class, i, 40+i*lineHeight, html.EscapeString(clip(shown)))
		if over := i + 1 - rows; over > 0 {
			fmt.Fprintf(&scroll, "%s{transform:translateY(-%dpx)}", percent(l.at), over*lineHeight)
		}
	}
	end := max(0, len(lines)-rows) * lineHeight
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="What make demo prints">
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dde5;white-space:pre;animation:l0 %[3]ds step-end infinite}
.s{font-weight:700;fill:#fff}.c{fill:#7fd1a8}
#all{animation:up %[3]ds step-end infinite}
@keyframes up{0%%{transform:none}%[4]s}
@media (prefers-reduced-motion:reduce){text,#all{animation:none}#all{transform:translateY(-%[5]dpx)}}
%[6]s</style>
<rect width="100%%" height="100%%" rx="8" fill="#14181f"/>
<clipPath id="window"><rect y="20" width="%[1]d" height="%[7]d"/></clipPath>
<g clip-path="url(#window)"><g id="all">
%[8]s</g></g>
</svg>
`, width, height, int(total.Seconds()+0.5), scroll.String(), end, style.String(), height-28, text.String())
}

// classOf returns the style of a line, and its text without terminal codes.
func classOf(text string) (class, shown string) {
	shown = strings.NewReplacer("\033[1m", "", "\033[0m", "").Replace(text)
	switch {
	case shown != text:
		return "s", shown
	case strings.HasPrefix(text, "$ "):
		return "c", shown
	}
	return "o", shown
}

// clip shortens a line to the width of the picture.
func clip(text string) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}
