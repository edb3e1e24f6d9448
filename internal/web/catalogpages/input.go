// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"html/template"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// inputs are the variables of a module, in the order of its files.
type inputs struct {
	Required, Optional []input
	Block              string // module block with the required inputs

	// The part that a page shows, set by cut.
	All        int    // number of inputs of the module
	Query      string // searched in names and descriptions
	site.Pages        // of the inputs that match the query
}

// Searched reports whether there are enough inputs for a search field.
func (in inputs) Searched() bool { return in.All > manyInputs }

// manyInputs is the number of inputs that fit on one or two screens.
const manyInputs = 30

// cutInputs keeps the inputs that match the query of a request, and of these one page.
func (in *inputs) cutInputs(r *site.Request) {
	in.All = len(in.Required) + len(in.Optional)
	in.Query = text.Clip(r.URL.Query().Get("q"), maxQuery)
	words := strings.Fields(strings.ToLower(in.Query))
	other := func(i input) bool {
		text := strings.ToLower(i.Name + " " + i.Description)
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
	if len(words) > 0 {
		in.Required = slices.DeleteFunc(in.Required, other)
		in.Optional = slices.DeleteFunc(in.Optional, other)
	}
	in.Pages = site.PagesOf(r, "page", len(in.Required)+len(in.Optional), maxInputs)
	in.Required, in.Optional = site.Between(in.Required, in.Optional, in.First, in.Last)
}

// maxInputs bounds the inputs on one page.
const maxInputs = 500

// maxQuery bounds the text to search for in a list, in bytes.
const maxQuery = 200

type input struct {
	artifact.DescribedVariable
	Text    template.HTML // the description, set by [modules.renderDescriptions]
	Default string        // as JSON; "" if it is required
}

// output is an output value of a module.
type output struct {
	artifact.DescribedOutput
	Text template.HTML // as in input
}

// renderDescriptions renders the descriptions of all inputs and outputs of a directory.
func (s *modules) renderDescriptions(b *dirBody) {
	var texts []string
	var to []*template.HTML
	add := func(text string, at *template.HTML) {
		texts = append(texts, text)
		to = append(to, at)
	}
	for i := range b.Inputs.Required {
		add(b.Inputs.Required[i].Description, &b.Inputs.Required[i].Text)
	}
	for i := range b.Inputs.Optional {
		add(b.Inputs.Optional[i].Description, &b.Inputs.Optional[i].Text)
	}
	for i := range b.Outputs {
		add(b.Outputs[i].Description, &b.Outputs[i].Text)
	}
	for i, html := range s.text.Descriptions(texts) {
		*to[i] = html
	}
}

// newInputs divides the variables into required and optional ones.
func newInputs(d artifact.DescribedModule) inputs {
	var all inputs
	for _, v := range d.Variables() {
		in := input{DescribedVariable: v}
		in.Type = text.Clip(v.Type, site.MaxShown)
		if v.Required {
			all.Required = append(all.Required, in)
			continue
		}
		in.Default = site.Indented(v.Default)
		all.Optional = append(all.Optional, in)
	}
	return all
}
