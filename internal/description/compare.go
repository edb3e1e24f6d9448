// SPDX-License-Identifier: Apache-2.0

package description

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Values of [Difference.Change].
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Values of [Difference.Effect], what a difference does to those who call the module.
const (
	Breaks   = "breaks"    // a call that was valid is refused, or loses what it uses
	MayBreak = "may break" // it depends on the call, on its other versions, or on what exists
	New      = "new"       // calls go on as they are
)

// Effects are all effects, the worst first.
func Effects() []string { return []string{Breaks, MayBreak, New} }

// Difference is one difference between two versions of a module.
type Difference struct {
	What     string `json:"what"`   // version, tool, provider, input, output, resource, data source, ephemeral resource, action or submodule
	Name     string `json:"name"`   // of a part of a submodule with its path: modules/subnets: cidr
	Change   string `json:"change"` // Added, Removed or Changed
	Effect   string `json:"effect"`
	Detail   string `json:"detail,omitempty"`   // the old value, and the new one; one line, short
	Breaking bool   `json:"breaking,omitempty"` // Effect is Breaks
}

// part is what is compared of an input, an output or another part of a module.
type part struct {
	text     string
	required bool // by callers
	variable artifact.DescribedVariable
	output   artifact.DescribedOutput
	versions []string
	source   string
	aliases  []string
}

// kind is a kind of parts with its rules.
type kind struct {
	name           string
	added, removed func(part) string
	changed        func(was, is part) string
}

// Compare returns the differences of two versions of a module that callers notice, of
// submodules as well, the worst first. The rules are those of docs/reference/compare-modules.md.
func Compare(before, now artifact.ModuleDescription) []Difference {
	all := slices.Concat(compareVersions(before.Version, now.Version), CompareModules(before.Root, now.Root))
	if was, is := path.Clean(before.Dir), path.Clean(now.Dir); was != is { // "." is the root
		all = append(all, Difference{What: "module", Name: "//" + strings.TrimPrefix(is, "."), Change: Changed, Effect: Breaks, Breaking: true, Detail: "//" + strings.TrimPrefix(was, ".") + " → //" + strings.TrimPrefix(is, ".") + ", the folder that callers address"})
	}
	were := modulesByPath(before.Submodules)
	are := modulesByPath(now.Submodules)
	paths := kind{name: "submodule", added: alwaysHas(New), removed: alwaysHas(Breaks)}
	all = append(all, paths.compareParts(partsOf(before.Submodules, submodulePart), partsOf(now.Submodules, submodulePart))...)
	for path, was := range were {
		is, ok := are[path]
		if !ok || len(was.Inputs) == 0 || len(is.Inputs) == 0 {
			continue // the description of a submodule was left out, as it was too large
		}
		for _, d := range CompareModules(was, is) {
			d.Name = path + ": " + d.Name
			all = append(all, d)
		}
	}
	sortDifferences(all)
	return all
}

// CompareModules compares two versions of one module of a package, the worst difference first.
func CompareModules(before, now artifact.DescribedModule) []Difference {
	var all []Difference
	add := func(k kind, before, now map[string]part) { all = append(all, k.compareParts(before, now)...) }
	tool := kind{name: "tool", added: addedTool, removed: alwaysHas(New), changed: func(was, is part) string { return versionsEffect(was.versions, is.versions) }}
	add(tool, toolParts(before), toolParts(now))
	own := func(all []artifact.DescribedProvider) []artifact.DescribedProvider { // terraform_data needs none
		return slices.DeleteFunc(slices.Clone(all), artifact.DescribedProvider.BuiltIn)
	}
	add(kind{"provider", addedProvider, removedProvider, changedProvider}, partsOf(own(before.RequiredProviders), providerPart), partsOf(own(now.RequiredProviders), providerPart))
	add(kind{"input", addedInput, alwaysHas(Breaks), changedInput}, partsOf(before.Variables(), inputPart), partsOf(now.Variables(), inputPart))
	add(kind{"output", alwaysHas(New), alwaysHas(Breaks), changedOutput}, partsOf(before.Outputs, outputPart), partsOf(now.Outputs, outputPart))
	moved := func(part, part) string { return New }
	for mode, k := range map[string]kind{"managed": {"resource", alwaysHas(New), alwaysHas(MayBreak), moved}, "data": {"data source", alwaysHas(New), alwaysHas(New), nil}, "ephemeral": {"ephemeral resource", alwaysHas(New), alwaysHas(New), nil}, "action": {"action", alwaysHas(New), alwaysHas(New), nil}} {
		other := func(r artifact.DescribedResource) bool { return r.Mode != mode }
		was, is := partsOf(slices.DeleteFunc(slices.Clone(before.Resources), other), resourcePart), partsOf(slices.DeleteFunc(slices.Clone(now.Resources), other), resourcePart)
		if mode == "managed" {
			joinMoved(was, is, now.Moved)
		}
		add(k, was, is)
	}
	if (before.Terraform != nil || now.Terraform != nil) && before.OnlyFor["opentofu"] == "" && now.OnlyFor["opentofu"] == "" {
		for _, d := range CompareModules(terraformHalf(before), terraformHalf(now)) {
			if !slices.Contains(all, d) {
				d.Name += " (terraform)"
				all = append(all, d)
			}
		}
	}
	sortDifferences(all)
	return all
}

// terraformHalf is what Terraform reads of a module.
func terraformHalf(m artifact.DescribedModule) artifact.DescribedModule {
	if m.Terraform != nil {
		return *m.Terraform
	}
	m.OnlyFor = nil // compared already
	return m
}

func sortDifferences(all []Difference) {
	order := []string{"version", "tool", "provider", "submodule", "input", "output", "resource", "data source", "ephemeral resource", "action"}
	slices.SortFunc(all, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(Effects(), x.Effect), slices.Index(Effects(), y.Effect)),
			cmp.Compare(slices.Index(order, x.What), slices.Index(order, y.What)), strings.Compare(x.Name, y.Name))
	})
}

// compareParts compares two sets of parts by name.
func (k kind) compareParts(before, now map[string]part) []Difference {
	var all []Difference
	add := func(name, change, detail, e string) {
		all = append(all, Difference{What: k.name, Name: name, Change: change, Effect: e, Detail: detail, Breaking: e == Breaks})
	}
	for name, was := range before {
		switch is, ok := now[name]; {
		case !ok:
			add(name, Removed, "", k.removed(was))
		case is.text != was.text || !slices.Equal(is.variable.Validation, was.variable.Validation):
			from, to := was.text, is.text
			if from == to { // only the rules differ
				from, to = was.otherRules(is), is.otherRules(was)
			}
			add(name, Changed, text.Clip(from, maxDetail)+" → "+text.Clip(to, maxDetail), k.changed(was, is))
		}
	}
	for name, is := range now {
		if _, ok := before[name]; !ok {
			add(name, Added, text.Clip(is.text, maxDetail), k.added(is))
		}
	}
	return all
}

// otherRules returns the validations of an input that another version of it lacks.
func (p part) otherRules(other part) string {
	has := func(rule string) bool { return slices.Contains(other.variable.Validation, rule) }
	return cmp.Or(strings.Join(slices.DeleteFunc(slices.Clone(p.variable.Validation), has), " and "), text.Plural(len(p.variable.Validation), "validation"))
}

func alwaysHas(e string) func(part) string { return func(part) string { return e } }

// compareVersions tells that a major version is passed, which announces changes that break callers.
func compareVersions(before, now string) []Difference {
	was, err := addr.ParseVersion(before)
	is, err2 := addr.ParseVersion(now)
	if err != nil || err2 != nil || was.Compare(is) >= 0 || !passesMajor(was, is) {
		return nil
	}
	return []Difference{{What: "version", Name: now, Change: Changed, Effect: MayBreak, Detail: before + " → " + now + ", a major version"}}
}

func passesMajor(was, is addr.Version) bool {
	a, b := strings.Split(was.String(), "."), strings.Split(is.String(), ".")
	return a[0] != b[0] || a[0] == "0" && a[1] != b[1] // 0.2 promises nothing to callers of 0.1 (semver.org, 4)
}

func modulesByPath(all []artifact.DescribedModule) map[string]artifact.DescribedModule {
	by := map[string]artifact.DescribedModule{}
	for _, m := range all {
		by[m.Path] = m
	}
	return by
}

func partsOf[T any](all []T, of func(T) (string, part)) map[string]part {
	parts := map[string]part{}
	for _, one := range all {
		name, p := of(one)
		parts[name] = p
	}
	return parts
}

func submodulePart(m artifact.DescribedModule) (string, part) { return m.Path, part{} }

// joinMoved makes one part of a resource and of what moved blocks make of it.
func joinMoved(before, now map[string]part, all []artifact.DescribedMove) {
	to := map[string]string{}
	for _, m := range all {
		to[m.From] = m.To
	}
	for _, from := range slices.Sorted(maps.Keys(before)) {
		at := from
		for range all { // of one version after the other
			if _, ok := now[at]; !ok && to[at] != "" {
				at = to[at]
			}
		}
		if _, taken := before[at]; !taken {
			delete(before, from)
			before[at], now[at] = part{text: from}, part{text: at}
		}
	}
}

func resourcePart(r artifact.DescribedResource) (string, part) { return r.Type + "." + r.Name, part{} }

// toolParts are the required_version, the versions of tools in a language block, and what one tool alone accepts.
func toolParts(m artifact.DescribedModule) map[string]part {
	all := map[string]part{}
	if v := m.RequiredVersion; len(v) > 0 {
		all["required_version"] = part{text: strings.Join(v, ", "), versions: v}
	}
	for tool, v := range m.CompatibleWith {
		all[tool] = part{text: v, versions: []string{v}}
	}
	for tool, what := range m.OnlyFor {
		all["only "+tool] = part{text: what, required: true}
	}
	return all
}

func addedTool(is part) string {
	if is.required { // of the other tool's callers
		return Breaks
	}
	return MayBreak
}

func providerPart(p artifact.DescribedProvider) (string, part) {
	words := slices.DeleteFunc([]string{p.Source, strings.Join(p.Versions, ", "), strings.Join(p.Aliases, ", ")}, func(s string) bool { return s == "" })
	return p.Name, part{text: strings.Join(words, " "), versions: p.Versions, source: p.Source, aliases: p.Aliases}
}

func addedProvider(is part) string {
	if len(is.aliases) > 0 { // which callers have to pass
		return Breaks
	}
	return MayBreak
}

func removedProvider(was part) string {
	if len(was.aliases) > 0 { // which callers pass
		return Breaks
	}
	return New
}

func changedProvider(was, is part) string {
	added := slices.ContainsFunc(is.aliases, func(a string) bool { return !slices.Contains(was.aliases, a) })
	removed := slices.ContainsFunc(was.aliases, func(a string) bool { return !slices.Contains(is.aliases, a) })
	switch {
	case added, removed, was.source != is.source && was.source != "":
		return Breaks
	case slices.Equal(was.versions, is.versions):
		return MayBreak
	}
	return versionsEffect(was.versions, is.versions)
}

// maxConstraints bounds the constraints of two versions that are compared, in bytes: the work
// grows with the square.
const maxConstraints = 4 << 10

var boundary = text.Pattern(`\d+(\.\d+){0,2}`)

// versionsEffect compares two sets of allowed versions at their bounds and beside them: a
// minimum in another major version breaks callers, any other version less may do so.
func versionsEffect(before, now []string) string {
	texts := [2]string{strings.Join(before, ", "), strings.Join(now, ", ")}
	if len(texts[0])+len(texts[1]) > maxConstraints {
		return MayBreak
	}
	was, err := addr.ParseConstraint(texts[0])
	is, err2 := addr.ParseConstraint(texts[1])
	if err != nil || err2 != nil {
		return MayBreak
	}
	effect := New
	lowest := [2]int{-1, -1}
	for _, v := range nearVersions(boundary().FindAllString(was.String()+" "+is.String(), -1)) {
		allowed := [2]bool{was.Allows(v), is.Allows(v)}
		if allowed[0] && !allowed[1] {
			effect = MayBreak
		}
		major, _ := strconv.Atoi(strings.Split(v.String(), ".")[0])
		for i := range allowed {
			if allowed[i] && (lowest[i] < 0 || major < lowest[i]) {
				lowest[i] = major
			}
		}
	}
	if effect == MayBreak && len(before) > 0 && lowest[0] < lowest[1] {
		return Breaks
	}
	return effect
}

// nearVersions returns versions at and just above each bound, and the first one of all.
func nearVersions(bounds []string) []addr.Version {
	var all []addr.Version
	for _, b := range append(bounds, "0") {
		var n [3]int
		for i, s := range strings.Split(b, ".") {
			n[i], _ = strconv.Atoi(s)
		}
		for _, v := range [][3]int{n, {n[0], n[1], n[2] + 1}, {n[0], n[1] + 1, 0}, {n[0] + 1, 0, 0}} {
			if parsed, err := addr.ParseVersion(fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])); err == nil {
				all = append(all, parsed)
			}
		}
	}
	return all
}

func inputPart(v artifact.DescribedVariable) (string, part) {
	words := []string{TypeLine(v.Type), "required"}
	if !v.Required {
		words[1] = "default " + oneLine(string(v.Default))
	}
	for word, is := range map[string]bool{"sensitive": v.Sensitive, "ephemeral": v.Ephemeral, "not nullable": v.NotNull, "const": v.Const, "deprecated": v.Deprecated} {
		if is {
			words = append(words, word)
		}
	}
	slices.Sort(words[2:])
	var rules []string
	for _, rule := range v.Validation { // as the tool formats them, so that only what they say counts
		rules = append(rules, TypeLine(rule))
	}
	slices.Sort(rules)
	v.Validation = rules
	if n := len(rules); n > 0 {
		words = append(words, text.Plural(n, "validation"))
	}
	return v.Name, part{text: strings.Join(words, ", "), required: v.Required, variable: v}
}

func addedInput(is part) string {
	if is.required {
		return Breaks
	}
	return New
}

// changedInput judges the parts of an input one by one; the worst one counts.
func changedInput(was, is part) string {
	a, b := was.variable, is.variable
	effects := []string{New}
	if !a.Required && b.Required || a.Ephemeral && !b.Ephemeral {
		effects = append(effects, Breaks)
	}
	newRule := slices.ContainsFunc(b.Validation, func(rule string) bool { return !slices.Contains(a.Validation, rule) })
	newDefault := !a.Required && !b.Required && oneLine(string(a.Default)) != oneLine(string(b.Default))
	if newRule || newDefault || a.NotNull != b.NotNull || !a.Sensitive && b.Sensitive || !a.Const && b.Const || !a.Ephemeral && b.Ephemeral {
		effects = append(effects, MayBreak)
	}
	if TypeLine(a.Type) != TypeLine(b.Type) {
		effects = append(effects, typeEffect(a.Type, b.Type))
	}
	return worstEffect(effects)
}

func worstEffect(effects []string) string {
	return slices.MinFunc(effects, func(x, y string) int { return cmp.Compare(slices.Index(Effects(), x), slices.Index(Effects(), y)) })
}

func outputPart(o artifact.DescribedOutput) (string, part) {
	var words []string
	if o.Type != "" {
		words = append(words, TypeLine(o.Type))
	}
	for _, w := range []struct {
		word string
		is   bool
	}{{"deprecated", o.Deprecated != ""}, {"ephemeral", o.Ephemeral}, {"sensitive", o.Sensitive}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return o.Name, part{text: strings.Join(words, ", "), output: o}
}

func changedOutput(was, is part) string {
	a, b := was.output, is.output
	effects := []string{New}
	if !a.Ephemeral && b.Ephemeral || !a.Sensitive && b.Sensitive { // where a caller's output shows it
		effects = append(effects, MayBreak)
	}
	if a.Type != "" && TypeLine(a.Type) != TypeLine(b.Type) {
		effects = append(effects, MayBreak)
	}
	return worstEffect(effects)
}

// maxDetail bounds one value of a difference, in bytes.
const maxDetail = 200

// TypeLine returns the type of a variable without line breaks and comments.
func TypeLine(source string) string {
	tokens, _ := hclsyntax.LexExpression([]byte(source), "type", hcl.InitialPos)
	var plain strings.Builder
	var open []hclsyntax.TokenType
	end, isNext, last := 0, false, hclsyntax.TokenNil
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenComment || t.Type == hclsyntax.TokenNewline {
			plain.WriteString(source[end:t.Range.Start.Byte] + " ")
			end = t.Range.End.Byte
			isNext = isNext || bytes.HasSuffix(t.Bytes, []byte("\n"))
			continue
		}
		if isNext && len(open) > 0 && open[len(open)-1] == hclsyntax.TokenOBrace && last != hclsyntax.TokenOBrace && last != hclsyntax.TokenComma && t.Type != hclsyntax.TokenCBrace {
			plain.WriteString(", ") // a line of an object ends as if with a comma
		}
		isNext, last = false, t.Type
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOBrack:
			open = append(open, t.Type)
		case hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenCBrack:
			open = open[:max(0, len(open)-1)]
		}
		plain.WriteString(source[end:t.Range.End.Byte])
		end = t.Range.End.Byte
	}
	line := strings.Join(strings.Fields(plain.String()+source[end:]), " ")
	return strings.ReplaceAll(string(hclwrite.Format([]byte(line))), " ,", ",")
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
