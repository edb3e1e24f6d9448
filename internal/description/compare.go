// SPDX-License-Identifier: Apache-2.0

package description

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Values of [Difference.Change].
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Difference is one difference between two versions of a module.
type Difference struct {
	What     string `json:"what"` // input, output, provider, resource or data source
	Name     string `json:"name"`
	Change   string `json:"change"`           // Added, Removed or Changed
	Detail   string `json:"detail,omitempty"` // the new value, and the old one; one line, short
	Breaking bool   `json:"breaking,omitempty"`
}

// Compare returns the differences of inputs, outputs, providers and resources.
// Breaking are inputs that have become required, and removed inputs and
// outputs.
func Compare(before, now artifact.DescribedModule) []Difference {
	inputs := setDiff("input", inputTexts(before), inputTexts(now))
	wasRequired := requiredOf(before)
	required := requiredOf(now)
	for i, d := range inputs {
		inputs[i].Breaking = d.Change == Removed || required[d.Name] && !wasRequired[d.Name]
	}
	outputs := setDiff("output", outputTexts(before), outputTexts(now))
	for i, d := range outputs {
		outputs[i].Breaking = d.Change == Removed
	}
	return slices.Concat(inputs, outputs,
		setDiff("provider", providerTexts(before), providerTexts(now)),
		setDiff("resource", resourceTexts(before, "managed"), resourceTexts(now, "managed")),
		setDiff("data source", resourceTexts(before, "data"), resourceTexts(now, "data")))
}

// setDiff compares two sets of texts by name.
func setDiff(what string, before, now map[string]string) []Difference {
	var all []Difference
	for name, was := range before {
		switch is, ok := now[name]; {
		case !ok:
			all = append(all, Difference{What: what, Name: name, Change: Removed})
		case is != was:
			all = append(all, Difference{What: what, Name: name, Change: Changed, Detail: text.Clip(was, maxDetail) + " → " + text.Clip(is, maxDetail)})
		}
	}
	for name, is := range now {
		if _, ok := before[name]; !ok {
			all = append(all, Difference{What: what, Name: name, Change: Added, Detail: text.Clip(is, maxDetail)})
		}
	}
	slices.SortFunc(all, func(x, y Difference) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func requiredOf(d artifact.DescribedModule) map[string]bool {
	all := map[string]bool{}
	for _, v := range d.Variables() {
		all[v.Name] = v.Required
	}
	return all
}

func inputTexts(d artifact.DescribedModule) map[string]string {
	texts := map[string]string{}
	for _, v := range d.Variables() {
		value := "required"
		if !v.Required {
			value = "default " + oneLine(string(v.Default))
		}
		texts[v.Name] = TypeLine(v.Type) + ", " + value + sensitiveSuffix(v.Sensitive)
	}
	return texts
}

func outputTexts(d artifact.DescribedModule) map[string]string {
	texts := map[string]string{}
	for _, o := range d.Outputs {
		texts[o.Name] = strings.TrimPrefix(sensitiveSuffix(o.Sensitive), ", ")
	}
	return texts
}

func providerTexts(d artifact.DescribedModule) map[string]string {
	texts := map[string]string{}
	for _, p := range d.RequiredProviders {
		texts[p.Name] = p.Source + " " + strings.Join(p.Versions, ", ")
	}
	return texts
}

func resourceTexts(d artifact.DescribedModule, mode string) map[string]string {
	texts := map[string]string{}
	for _, res := range d.Resources {
		if res.Mode == mode {
			texts[res.Type+"."+res.Name] = ""
		}
	}
	return texts
}

func sensitiveSuffix(is bool) string {
	if is {
		return ", sensitive"
	}
	return ""
}

// maxDetail bounds one value of a difference, in bytes.
const maxDetail = 200

// TypeLine returns the type of a variable without line breaks and comments.
func TypeLine(source string) string {
	tokens, _ := hclsyntax.LexExpression([]byte(source), "type", hcl.InitialPos)
	var plain strings.Builder
	end := 0
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenComment {
			plain.WriteString(source[end:t.Range.Start.Byte] + " ")
			end = t.Range.End.Byte
		}
	}
	line := strings.Join(strings.Fields(plain.String()+source[end:]), " ")
	return string(hclwrite.Format([]byte(line)))
}

// oneLine returns a value without line breaks. JSON is written without spaces;
// null means that an optional input has no default.
func oneLine(s string) string {
	var value any
	if json.Unmarshal([]byte(cmp.Or(s, "null")), &value) == nil {
		if out, err := json.Marshal(value); err == nil {
			s = string(out)
		}
	}
	return strings.Join(strings.Fields(s), " ")
}
