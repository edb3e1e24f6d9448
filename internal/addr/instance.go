// SPDX-License-Identifier: Apache-2.0

package addr

import "strings"

// TemplateReserved is the namespace that templates cannot have, for runs of workspaces.
const TemplateReserved = "tfe"

// maxTemplatePart bounds a template's namespace and name: each fits a DNS label with an id.
const maxTemplatePart = 40

// ParseTemplate parses "namespace/name". The error is a [*SyntaxError].
func ParseTemplate(s string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || strings.Contains(name, "/") {
		return "", "", syntaxError("template", s, "must be NAMESPACE/NAME")
	}
	if namespace == TemplateReserved {
		return "", "", syntaxError("template", s, "the namespace %q is reserved", namespace)
	}
	return namespace, name, checkTemplate(namespace, name)
}

// checkInstanceTemplate is checkTemplate for records, which may name a state of runs.
func checkInstanceTemplate(namespace, name string) error {
	if namespace != TemplateReserved {
		return checkTemplate(namespace, name)
	}
	if p := segmentRule().whyInvalid(name); p != "" {
		return syntaxError("state name", name, "%s", p)
	}
	return nil
}

func checkTemplate(namespace, name string) error {
	for _, part := range []struct{ what, value string }{{"template namespace", namespace}, {"template name", name}} {
		if err := checkPart(part.what, part.value, dashRule()); err != nil {
			return err
		}
		if len(part.value) > maxTemplatePart {
			return syntaxError(part.what, part.value, "%d characters; at most %d are allowed", len(part.value), maxTemplatePart)
		}
	}
	return nil
}

// Characters of an instance's id, a DNS label that is easy to read aloud.
const (
	InstanceLetters = "abcdefghjkmnpqrstvwxyz"
	InstanceDigits  = "23456789"
	InstanceLength  = 10
)

// CheckInstance returns why s is no id of an instance, as a [*SyntaxError].
func CheckInstance(s string) error {
	if len(s) != InstanceLength || !strings.Contains(InstanceLetters, s[:1]) || strings.Trim(s, InstanceLetters+InstanceDigits) != "" {
		return syntaxError("instance", s, "must be %d of the characters %s%s, starting with a letter", InstanceLength, InstanceLetters, InstanceDigits)
	}
	return nil
}
