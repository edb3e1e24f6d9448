// SPDX-License-Identifier: Apache-2.0

package plantext

import (
	"fmt"
	"strings"
)

// Max bounds the text of a plan, in bytes: what is approved is shown whole.
const Max = 1 << 20

// Effect returns what the sign of a plan's line says: add, change, remove, replace, or "" for none.
func Effect(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, c := range []struct{ sign, does string }{
		{"-/+ ", "replace"}, {"+/- ", "replace"}, {"+ ", "add"}, {"- ", "remove"}, {"~ ", "change"}, {"<= ", "change"},
	} {
		if strings.HasPrefix(line, c.sign) {
			return c.does
		}
	}
	return ""
}

// Part is what a plan says of one resource, of all outputs, or of changes outside of it.
type Part struct {
	Effect string // as of [Effect]; "": it stays, or is only read
	Name   string // the address
	Note   string // what happens to it, in the words of the tool
	Text   string // the lines below
}

// Split returns the parts of a plan; nil if they do not add up to the numbers that the tool gives,
// so that only the whole text can be trusted. A value never begins a part: the tool indents it.
func Split(plan string) (parts []Part, add, change, remove int) {
	before, rest, _ := strings.Cut(plan, " will perform the following actions:\n")
	body, after, ok := strings.Cut(rest, "\nPlan: ")
	if !ok {
		return nil, 0, 0, 0
	}
	parts = splitBody(body)
	for _, p := range parts {
		switch p.Effect {
		case "add":
			add++
		case "change":
			change++
		case "remove":
			remove++
		case "replace":
			add++
			remove++
		}
	}
	numbers, _, _ := strings.Cut(after, "\n")
	if _, rest, ok := strings.Cut(numbers, " to import, "); ok {
		numbers = rest
	}
	if !strings.HasPrefix(numbers, fmt.Sprintf("%d to add, %d to change, %d to destroy", add, change, remove)) {
		return nil, 0, 0, 0
	}
	_, said, _ := strings.Cut(after, "\n")
	if told, outputs, ok := strings.Cut("\n"+said, "\nChanges to Outputs:\n"); ok {
		end := strings.Index(outputs, "\n\n")
		if end < 0 {
			end = len(outputs)
		}
		parts = append(parts, Part{Name: "outputs", Note: "change", Text: outputs[:end]})
		said = told + outputs[end:]
	}
	if said = strings.TrimSpace(said); said != "" {
		parts = append(parts, Part{Note: "other output of the tool", Text: said})
	}
	if _, outside, ok := strings.Cut(before, "Note: Objects have changed outside of "); ok {
		parts = append(parts, Part{Note: "what has changed outside of the tool", Text: outside})
	}
	return parts, add, change, remove
}

func splitBody(body string) (parts []Part) {
	blank, head := true, false
	from, at := 0, 0
	for line := range strings.Lines(body) {
		at += len(line)
		title, ok := strings.CutPrefix(line, "  # ")
		switch {
		case ok && blank:
			parts = append(parts, newPart(strings.TrimSpace(title)))
			from, head = at, true
		case len(parts) > 0:
			p := &parts[len(parts)-1]
			p.Text = body[from:at]
			if head && !ok { // the line of the block, after the comments
				head = false
				if !strings.HasPrefix(line, " <= ") { // reading changes nothing
					p.Effect = Effect(line)
				}
			}
		case strings.TrimSpace(line) != "":
			return nil // a value that reads like the first line
		}
		blank = strings.TrimSpace(line) == ""
	}
	return parts
}

// newPart divides a title into an address, which can hold any words, and those of the tool.
func newPart(title string) Part {
	end := len(title)
	for _, does := range []string{" will be ", " must be ", " is tainted", " has moved to ", " will no longer "} {
		if i := strings.LastIndex(title[:end], does); i > 0 {
			end = i
		}
	}
	return Part{Name: title[:end], Note: strings.TrimSpace(title[end:])}
}
