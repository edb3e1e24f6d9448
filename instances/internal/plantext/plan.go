// SPDX-License-Identifier: Apache-2.0

package plantext

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Max bounds the text of a plan, in bytes: what is approved is shown whole.
const Max = 1 << 20

// Counts are the changes of a plan or of an apply.
type Counts struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Remove  int `json:"remove"`
	Replace int `json:"replace,omitempty"` // the part of Remove that is created again
	Import  int `json:"import,omitempty"`
	Forget  int `json:"forget,omitempty"` // no longer managed, and not destroyed
}

// ReadCounts reads the line in which both tools summarize a plan; nil: it is another one.
func ReadCounts(line []byte) *Counts {
	rest, ok := bytes.CutPrefix(line, []byte("Plan: "))
	if !ok {
		return nil
	}
	c := &Counts{}
	to := map[string]*int{"to import": &c.Import, "to add": &c.Add, "to change": &c.Change, "to destroy": &c.Remove, "to forget": &c.Forget}
	found := 0
	counted, _, _ := strings.Cut(string(rest), ".") // actions may follow
	for part := range strings.SplitSeq(counted, ", ") {
		number, verb, _ := strings.Cut(part, " ")
		if n, err := strconv.Atoi(number); err == nil && to[verb] != nil {
			*to[verb] = n
			found++
		}
	}
	if found < 3 {
		return nil
	}
	return c
}

// Words describes changes in the words of the tools: planned ones, or ones made.
func (c Counts) Words(done bool) string {
	verbs := []string{"to add", "to change", "to destroy", "to import", "to forget"}
	if done {
		verbs = []string{"added", "changed", "destroyed", "imported", "forgotten"}
	}
	var words []string
	for i, n := range []int{c.Add, c.Change, c.Remove, c.Import, c.Forget} {
		if n > 0 || i < 3 {
			words = append(words, fmt.Sprintf("%d %s", n, verbs[i]))
		}
		if i == 2 && c.Replace > 0 {
			words = append(words, fmt.Sprintf("%d of them replaced", c.Replace))
		}
	}
	return strings.Join(words, ", ")
}

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
	Effect string // as of [Effect], import or forget; "": it stays, or is only read
	Name   string // the address
	Note   string // what happens to it, in the words of the tool
	Text   string // the lines below
}

// Split returns the parts of a plan; nil if they do not add up to the numbers that the tool gives,
// so that only the whole text can be trusted. A value never begins a part: the tool indents it.
func Split(plan string) (parts []Part, c Counts) {
	before, rest, _ := strings.Cut(plan, " will perform the following actions:\n")
	body, after, ok := strings.Cut(rest, "\nPlan: ")
	if !ok {
		return nil, c
	}
	parts = splitBody(body)
	for _, p := range parts {
		switch p.Effect {
		case "add":
			c.Add++
		case "change":
			c.Change++
		case "remove":
			c.Remove++
		case "replace":
			c.Add++
			c.Remove++
			c.Replace++
		case "forget":
			c.Forget++
		}
	}
	told := ReadCounts([]byte("Plan: " + after))
	if told == nil {
		return nil, c
	}
	if c.Import = told.Import; told.Forget == 0 { // Terraform does not count them
		told.Forget = c.Forget
	}
	if told.Replace = c.Replace; *told != c {
		return nil, Counts{}
	}
	_, said, _ := strings.Cut(after, "\n")
	if first, outputs, ok := strings.Cut("\n"+said, "\nChanges to Outputs:\n"); ok {
		end := strings.Index(outputs, "\n\n")
		if end < 0 {
			end = len(outputs)
		}
		parts = append(parts, Part{Name: "outputs", Note: "change", Text: outputs[:end]})
		said = first + outputs[end:]
	}
	if said = strings.TrimSpace(said); said != "" {
		parts = append(parts, Part{Note: "other output of the tool", Text: said})
	}
	if _, outside, ok := strings.Cut(before, "Note: Objects have changed outside of "); ok {
		parts = append(parts, Part{Note: "what has changed outside of the tool", Text: outside})
	}
	return parts, c
}

func splitBody(body string) (parts []Part) {
	blank, head := true, false
	from, at := 0, 0
	for line := range strings.Lines(body) {
		at += len(line)
		title, ok := strings.CutPrefix(strings.TrimPrefix(line, " "), " # ")
		if !ok { // of what Terraform forgets
			title, ok = strings.CutPrefix(line, " # ")
		}
		switch {
		case ok && blank:
			parts = append(parts, newPart(strings.TrimSpace(title)))
			from, head = at, true
		case len(parts) > 0:
			p := &parts[len(parts)-1]
			p.Text = body[from:at]
			if head && !ok { // the line of the block, after the comments
				head = false
				switch {
				case strings.HasPrefix(line, " <= "): // reading changes nothing
				case strings.HasPrefix(strings.TrimLeft(line, " "), ". "):
					p.Effect = "forget"
				case p.Note == "will be imported":
					p.Effect = "import"
				default:
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
