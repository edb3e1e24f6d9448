// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// Expressions of a GroupBinding that name groups, one of which is sufficient.
var (
	groupTerms = text.Pattern(`^\s*(?:"[^"\\]*"|'[^'\\]*')\s+in\s+groups\s*(?:(?:\|\||\bor\b)\s*(?:"[^"\\]*"|'[^'\\]*')\s+in\s+groups\s*)*$`)
	groupName  = text.Pattern(`"[^"\\]*"|'[^'\\]*'`)
)

// maxExpression bounds an expression, in bytes.
const maxExpression = 16 << 10

// bindingRule returns the rights of a GroupBinding; nil if they cannot be expressed.
func (im *kubeImport) bindingRule(d openDepot, o *kubeObject) any {
	text := d.Spec.Expression
	if len(text) > maxExpression || !groupTerms().MatchString(text) {
		o.noteComment("expression %.200q: only groups joined by || can be converted", text)
		return nil
	}
	var spec kubeRule
	for _, quoted := range groupName().FindAllString(text, -1) {
		if name := quoted[1 : len(quoted)-1]; !slices.Contains(spec.Groups, name) {
			spec.Groups = append(spec.Groups, name)
		}
	}
	if len(spec.Groups) > maxOpenNames {
		o.noteComment("expression: more than %d groups", maxOpenNames)
		return nil
	}
	for _, glob := range d.Spec.ModuleResources {
		im.allowModules(&spec, d.Metadata.Namespace, glob, o)
	}
	for _, name := range d.Spec.ProviderResources {
		im.allowProviders(&spec, d.Metadata.Namespace, name, o)
	}
	if len(spec.Allow) > maxOpenNames {
		spec.Allow = spec.Allow[:maxOpenNames]
		o.noteComment("more than %d rights: create another rule for the rest", maxOpenNames)
	}
	if len(spec.Allow) == 0 {
		o.noteComment("it grants nothing")
		return nil
	}
	o.noteComment("rules are cumulative: in OpenDepot the first match in alphabetical order wins")
	o.noteComment("issuer: without one the rule applies to tokens of every issuer of okara serve")
	return spec
}

func (im *kubeImport) allowModules(spec *kubeRule, namespace, glob string, o *kubeObject) {
	if _, err := path.Match(glob, ""); err != nil || glob == "" || strings.ContainsAny(glob, `?[]\/{}`) {
		o.noteComment("moduleResources %q: only names and * can be converted", glob)
		return
	}
	if glob == "*" {
		spec.allowScope("read:module:" + namespace + "/**")
		return
	}
	spec.allowScope("read:module:" + namespace + "/" + glob + "/*")
}

// allowProviders looks up a namespace's providers of a name.
func (im *kubeImport) allowProviders(spec *kubeRule, namespace, name string, o *kubeObject) {
	found := false
	if name == "*" {
		o.noteComment("providerResources \"*\": current providers only, add a line for each new one")
	}
	for _, address := range im.types[namespace+" "+strings.ToLower(name)] {
		spec.allowScope("read:mirror:" + address)
		found = true
	}
	if !found {
		o.noteComment("providerResources %q: no Provider with this name", name)
	}
}

// allowScope adds a right, up to one more than the maximum.
func (s *kubeRule) allowScope(scope string) {
	if len(s.Allow) <= maxOpenNames && !slices.Contains(s.Allow, scope) {
		s.Allow = append(s.Allow, scope)
		slices.Sort(s.Allow)
	}
}
