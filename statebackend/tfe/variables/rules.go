// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of a variable and of a set.
const (
	maxKey         = 255
	maxValue       = 64 << 10
	maxDescription = 512
)

// Check returns the reason why a variable cannot be stored. It shows no value.
func (v Variable) Check() error {
	switch {
	case v.Category != Terraform && v.Category != Environment:
		return fmt.Errorf("category must be %s or %s", Terraform, Environment)
	case v.Key == "" || len(v.Key) > maxKey:
		return fmt.Errorf("key must have 1 to %d characters", maxKey)
	case len(v.Value) > maxValue || len(v.Description) > maxDescription:
		return fmt.Errorf("a value must be at most %d KiB, a description at most %d characters", maxValue>>10, maxDescription)
	case v.Category == Environment:
		if strings.ContainsAny(v.Key, "=\x00") || strings.ContainsRune(v.Value, 0) {
			return errors.New("key and value must be those of an environment variable")
		}
		return v.checkHidden(v.Value)
	case !hclsyntax.ValidIdentifier(v.Key):
		return errors.New("key must be the name of a variable of the configuration")
	}
	value, err := v.literalJSON()
	if err != nil {
		return err
	}
	return v.checkHidden(jsonTexts(value)...)
}

// minHidden is the shortest value that a log can hide: shorter ones are parts of many words.
const minHidden = 8

// minLine is the same for each line of a text that has no line of minHidden.
const minLine = 4

// checkHidden refuses a sensitive variable that a log or a plan would partly show. true, false and
// null inside a value give nothing away.
func (v Variable) checkHidden(parts ...string) error {
	isShown := func(s string) bool {
		lines := slices.DeleteFunc(strings.Split(s, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
		long := slices.ContainsFunc(lines, func(line string) bool { return len(line) >= minHidden })
		return len(s) < minHidden || !long && slices.ContainsFunc(lines, func(line string) bool { return len(strings.TrimSpace(line)) < minLine })
	}
	if v.Sensitive && (len(v.Value) < minHidden || slices.ContainsFunc(parts, isShown)) {
		return fmt.Errorf("a sensitive value, and each string and number in it, must have at least %d characters, and lines of at least %d, since shorter ones cannot be masked in logs\nhint: use a longer value, or do not store it as sensitive; sensitive = true in the variable of the configuration hides it, too", minHidden, minLine)
	}
	return nil
}

func (v Variable) literalJSON() (json.RawMessage, error) {
	if v.HCL {
		return parseLiteral(v.Value)
	}
	return json.Marshal(v.Value)
}

// Scope is how closely a set is related to a workspace that uses it.
type Scope int

// Scopes, the closest first.
const (
	OfWorkspace Scope = iota
	OfProject
	OfAll
)

// Applied is a set that a workspace uses.
type Applied struct {
	Set
	Scope
	Variables []Variable
}

// Applying returns the sets that a workspace uses, each with its closest scope, without variables.
func Applying(sets []Set, uses []Use, workspace, project string) []Applied {
	var list []Applied
	for _, s := range sets {
		scope := OfAll
		used := s.Global
		for _, u := range uses {
			switch {
			case u.Set != s.ID:
			case u.Workspace == workspace && workspace != "":
				scope = OfWorkspace
				used = true
			case u.Project == project && project != "":
				scope = min(scope, OfProject)
				used = true
			}
		}
		if used {
			list = append(list, Applied{Set: s, Scope: scope})
		}
	}
	return list
}

// setRank is the precedence of a set's variables; the higher wins. The workspace's own have rank 0,
// above it the request's, then sets with priority.
func (a Applied) setRank() int {
	if a.Priority {
		return 1 + int(a.Scope)
	}
	return -1 - int(a.Scope)
}

// Given is the set of variables that a run gets.
type Given struct {
	Variables   map[string]json.RawMessage // of the configuration
	Environment map[string]string
	Masked      []string // values to hide in logs
}

type layer struct {
	rank int
	name string // of the set; "": the workspace
	list []Variable
}

// rankedLayers returns variables of a workspace and its sets by rank. A name's last value counts.
func rankedLayers(own []Variable, sets []Applied) []layer {
	all := []layer{{0, "", own}}
	for _, s := range sets {
		all = append(all, layer{s.setRank(), s.Name, s.Variables})
	}
	slices.SortFunc(all, func(a, b layer) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(b.name, a.name)) })
	return all
}

// Counting returns the variables in effect for a workspace, without those of a request.
func Counting(own []Variable, sets []Applied) []Variable {
	counts := map[string]Variable{}
	for _, l := range rankedLayers(own, sets) {
		for _, v := range l.list {
			counts[v.Category+"\x00"+v.Key] = v
		}
	}
	return slices.SortedFunc(maps.Values(counts), compareVariables)
}

// Give returns what a run gets from the variables of its workspace, of the workspace's sets, and of
// the request. Of one name the highest rank counts, and among equals the set that sorts first.
func Give(own []Variable, sets []Applied, requested map[string]json.RawMessage) (Given, error) {
	g := Given{Variables: map[string]json.RawMessage{}, Environment: map[string]string{}}
	counts := map[string]Variable{}
	over := map[string]bool{}
	for _, l := range rankedLayers(own, sets) {
		for _, v := range l.list {
			counts[v.Category+"\x00"+v.Key] = v
			over[v.Category+"\x00"+v.Key] = l.rank > 0
		}
	}
	maps.Copy(g.Variables, requested)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		v := counts[name]
		if _, given := requested[v.Key]; given && v.Category == Terraform && !over[name] {
			continue
		}
		if err := g.takeVariable(v); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (g *Given) takeVariable(v Variable) error {
	if v.Sensitive {
		g.Masked = append(g.Masked, v.Value)
	}
	if v.Category == Environment {
		g.Environment[v.Key] = v.Value
		return nil
	}
	value, err := v.literalJSON()
	if err != nil { // stored by another version, which accepted more
		return fmt.Errorf("variable %q: %w", v.Key, err)
	}
	if v.Sensitive {
		g.Masked = append(g.Masked, jsonTexts(value)...)
	}
	g.Variables[v.Key] = value
	return nil
}

// jsonTexts returns the strings and numbers in a JSON value, without the names of attributes.
func jsonTexts(raw json.RawMessage) []string {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil
	}
	return leafTexts(value)
}

func leafTexts(value any) (list []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case []any:
		for _, one := range v {
			list = append(list, leafTexts(one)...)
		}
	case map[string]any:
		for _, one := range v {
			list = append(list, leafTexts(one)...)
		}
	}
	return list
}

// Of reads the variables of a workspace, and the sets that it uses with their variables.
func (l *Listing) Of(ctx context.Context, workspace, project string) ([]Variable, []Applied, error) {
	own, err := l.Variables(ctx, workspace)
	if err != nil {
		return nil, nil, err
	}
	sets, uses, err := l.Sets(ctx)
	if err != nil {
		return nil, nil, err
	}
	applied := Applying(sets, uses, workspace, project)
	for i := range applied {
		if applied[i].Variables, err = l.SetVariables(ctx, applied[i].ID); err != nil {
			return nil, nil, err
		}
	}
	return own, applied, nil
}
