// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"fmt"
	"strings"
)

const maxPart = 64 // the clients' limit for a module namespace or name

// alphabet is a rule for a part of an address: lower case, digits, some separators between.
type alphabet struct {
	separators string // characters allowed between two letters or digits
	rule       string // the rule as text
}

func systemRule() alphabet { return alphabet{"", "only a-z and 0-9 are allowed"} }

func dashRule() alphabet {
	return alphabet{"-", `only a-z, 0-9 and single "-" between them are allowed`}
}

func nameRule() alphabet {
	return alphabet{"-_", `only a-z, 0-9 and "-", "_" or "__" between them are allowed`}
}

func segmentRule() alphabet {
	return alphabet{"-_.", `only a-z, 0-9 and "-", ".", "_" or "__" between them are allowed`}
}

// whyInvalid returns why s breaks the rule, or "" if it does not.
func (a alphabet) whyInvalid(s string) string {
	if s == "" {
		return "must not be empty"
	}
	if strings.ToLower(s) != s {
		for _, c := range s {
			if c >= 'A' && c <= 'Z' {
				return fmt.Sprintf("upper-case %q is not allowed in a repository name; %s", c, a.rule)
			}
		}
	}
	for _, c := range s {
		if !isAlphanumeric(c) && !strings.ContainsRune(a.separators, c) {
			return fmt.Sprintf("character %q is not allowed; %s", c, a.rule)
		}
	}
	return a.checkSeparators(s)
}

// checkSeparators checks the separators in s, and that all else is letters and digits.
func (a alphabet) checkSeparators(s string) string {
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && !isAlphanumeric(rune(s[j])) {
			j++
		}
		run := s[i:j]
		switch {
		case run == "":
			i++
			continue
		case i == 0:
			return fmt.Sprintf("must not start with %q; %s", run, a.rule)
		case j == len(s):
			return fmt.Sprintf("must not end with %q; %s", run, a.rule)
		case len(run) > 1 && !a.longRun(run):
			return fmt.Sprintf("%q is not allowed; %s", run, a.rule)
		}
		i = j
	}
	return ""
}

// longRun reports whether a run of separators is valid in OCI: "__", and but for providers dashes.
func (a alphabet) longRun(run string) bool {
	if a.separators == "-" {
		return false
	}
	return run == "__" || strings.Trim(run, "-") == ""
}

func isAlphanumeric(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func checkPart(what, s string, a alphabet) error {
	if p := a.whyInvalid(s); p != "" {
		return syntaxError(what, s, "%s", p)
	}
	if len(s) > maxPart {
		return syntaxError(what, s, "%d characters; at most %d are allowed", len(s), maxPart)
	}
	return nil
}
