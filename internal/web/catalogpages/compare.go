// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// compareBody is what differs between two versions of a module.
type compareBody struct {
	Address  string
	From, To string
	Choices  []string
	Rows     []difference
	Pages    site.Pages
	Breaking int // of all
}

// difference is one thing that is not the same.
type difference struct {
	What, Name string
	Change     string // added, removed or changed
	Detail     string
	Breaking   bool
}

// compare sets two versions side by side, from their descriptions alone.
func (s *modules) compare(r *site.Request) (*site.Page, error) {
	m, l, err := s.listed(r)
	if err != nil {
		return nil, err
	}
	if len(l.Listed) == 0 {
		return nil, site.NotFound("no version of module %s is available: okara list %s shows what became of them", m, m)
	}
	body := compareBody{Address: m.String()}
	for _, v := range l.Listed[:min(len(l.Listed), site.RowsPerPage)] {
		body.Choices = append(body.Choices, v.String())
	}
	from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
	if to == "" {
		to = body.Choices[0]
	}
	if from == "" {
		from = body.Choices[min(1, len(body.Choices)-1)]
	}
	var sides [2]artifact.DescribedModule
	for i, text := range []string{from, to} {
		if sides[i], err = s.described(r, m, text); err != nil {
			return nil, err
		}
	}
	all := differences(sides[0], sides[1])
	for _, d := range all {
		if d.Breaking {
			body.Breaking++
		}
	}
	body.From, body.To = from, to
	body.Rows, body.Pages = site.OnePage(r, "page", all)
	return &site.Page{
		Template: "compare.html", Title: "Compare versions", Body: body,
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: m.Namespace, Href: "modules/" + m.Namespace}, {Text: m.String(), Href: itemPath(m.Item())}},
		Command: "okara show " + m.String() + "@" + to,
	}, nil
}

func (s *modules) described(r *site.Request, m addr.Module, version string) (artifact.DescribedModule, error) {
	v, err := addr.ParseVersion(version)
	if err != nil {
		return artifact.DescribedModule{}, site.NotFound("%v", err)
	}
	mv, err := s.catalog.ModuleVersion(r.Context(), m, v)
	if err != nil {
		return artifact.DescribedModule{}, gone(err, "module", m.String())
	}
	d, err := s.catalog.Description(r.Context(), mv)
	return d.Root, err
}

// differences are those of inputs, outputs, providers and resources. What breaks
// a caller is an input that is required now, or gone, and an output that is gone.
func differences(a, b artifact.DescribedModule) []difference {
	rows := setDiff("input", inputText(a), inputText(b))
	before, now := requiredOf(a), requiredOf(b)
	for i, d := range rows {
		rows[i].Breaking = d.Change == "removed" || now[d.Name] && !before[d.Name]
	}
	outputs := setDiff("output", outputText(a), outputText(b))
	for i, d := range outputs {
		outputs[i].Breaking = d.Change == "removed"
	}
	return slices.Concat(rows, outputs, setDiff("provider", providerText(a), providerText(b)), setDiff("resource", resourceText(a, "managed"), resourceText(b, "managed")),
		setDiff("data source", resourceText(a, "data"), resourceText(b, "data")))
}

// Mark is the change, as good or bad as it is for what is called.
func (d difference) Mark() site.Mark {
	return site.Mark{Text: d.Change, Kind: map[string]string{"added": "good", "removed": "bad", "changed": "plain"}[d.Change]}
}

// setDiff compares two sets of texts by name.
func setDiff(what string, a, b map[string]string) []difference {
	var rows []difference
	for name, text := range a {
		switch now, ok := b[name]; {
		case !ok:
			rows = append(rows, difference{What: what, Name: name, Change: "removed"})
		case now != text:
			rows = append(rows, difference{What: what, Name: name, Change: "changed", Detail: text + " → " + now})
		}
	}
	for name, text := range b {
		if _, ok := a[name]; !ok {
			rows = append(rows, difference{What: what, Name: name, Change: "added", Detail: text})
		}
	}
	slices.SortFunc(rows, func(x, y difference) int { return strings.Compare(x.Name, y.Name) })
	return rows
}

// requiredOf are the inputs of a module that must be set.
func requiredOf(d artifact.DescribedModule) map[string]bool {
	all := map[string]bool{}
	for _, in := range newInputs(d).Required {
		all[in.Name] = true
	}
	return all
}

func inputText(d artifact.DescribedModule) map[string]string {
	all := newInputs(d)
	texts := map[string]string{}
	for _, in := range all.Required {
		texts[in.Name] = oneLine(cmp.Or(in.Type, "any")) + ", required" + sensitive(in.Sensitive)
	}
	for _, in := range all.Optional {
		texts[in.Name] = oneLine(cmp.Or(in.Type, "any")) + ", default " + oneLine(in.Default) + sensitive(in.Sensitive)
	}
	return texts
}

func outputText(d artifact.DescribedModule) map[string]string {
	texts := map[string]string{}
	for _, o := range d.Outputs {
		texts[o.Name] = strings.TrimPrefix(sensitive(o.Sensitive), ", ")
	}
	return texts
}

func providerText(d artifact.DescribedModule) map[string]string {
	texts := map[string]string{}
	for _, p := range d.RequiredProviders {
		texts[p.Name] = p.Source + " " + strings.Join(p.Versions, ", ")
	}
	return texts
}

func resourceText(d artifact.DescribedModule, mode string) map[string]string {
	texts := map[string]string{}
	for _, res := range d.Resources {
		if res.Mode == mode {
			texts[res.Type+"."+res.Name] = ""
		}
	}
	return texts
}

func sensitive(is bool) string {
	if is {
		return ", sensitive"
	}
	return ""
}

// oneLine is a text without line breaks, short enough for a table.
func oneLine(s string) string {
	var b any
	if json.Unmarshal([]byte(s), &b) == nil {
		if out, err := json.Marshal(b); err == nil {
			s = string(out)
		}
	}
	return site.Clip(strings.Join(strings.Fields(s), " "))
}
