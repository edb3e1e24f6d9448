// SPDX-License-Identifier: Apache-2.0

package run

import (
	"regexp"
	"slices"
	"strings"
)

// Permanent reports whether an error of the tool is permanent: another attempt with the
// same module and values would fail with it again. The argument is one error message of
// the tool. Unknown errors are assumed to be temporary.
func Permanent(message string) bool {
	if _, after, ok := strings.Cut(message, "Error: "); ok {
		message = after
	}
	message = strings.Join(strings.Fields(message), " ") // the tool wraps its lines
	if says(configured, message) || says(unavailable, message) {
		return true
	}
	return refused(message) && !says(transient, message)
}

// The pattern configured matches the summaries of errors in modules and values
// (https://opentofu.org/docs/language/), unavailable those of providers and modules that
// do not exist.
const (
	configured = `^(?:(?:plan|apply|init): )?(?:Invalid (?:[a-z_ ]+ )?(?:value|reference|expression|argument|attribute|block|index|operand|type|count|for_each|key|name|interpolation|combination|configuration|constraint|source|default|Attribute)\b|` +
		`No value for required variable|Resource precondition failed|Module output value precondition failed|Unsupported (?:argument|attribute|block type|operator|OpenTofu Core version|Terraform Core version)|` +
		`Missing (?:required argument|resource instance key|name for|newline|item|key)|Insufficient [a-z_]+ blocks|Too many [a-z_]+ blocks|Reference to undeclared|Call to unknown function|Error in function call|Not enough function arguments|Too many function arguments|` +
		`Incorrect attribute value type|Inconsistent conditional result types|Conflicting configuration arguments|Duplicate |Self-referential block|Cycle|Module not found|Unreadable module|Argument or block definition required)`
	unavailable = `was not found in any of the search locations|does not have a provider named|no available releases match|no available versions|not available for your current platform|` +
		`Provider dependency changes detected|Incompatible provider version|[Uu]nresolvable module version|doesn't match any of the checksums`
	numbered  = `(?i)(?:status ?code|status|http(?:/[0-9.]+)?|error|code|response)[^0-9a-z]{0,6}(4[0-9][0-9])\b|\b(4[0-9][0-9]) (?:bad request|unauthorized|forbidden|not found|gone|unprocessable)`
	transient = `(?i)throttl|rate.?limit|rate exceeded|limit ?exceeded|too many requests|try again|retry|timed? ?out|in progress|not yet|temporar|propagat|conflict|pending|expired|security token`
)

// refused reports whether an API refused a request because of its content: by a status
// that the same request would get again (RFC 9110, 15.5). 401 is not one of them: the
// next attempt has new credentials.
func refused(message string) bool {
	for _, m := range regexp.MustCompile(numbered).FindAllStringSubmatch(message, -1) {
		if slices.Contains([]string{"400", "402", "403", "404", "405", "406", "410", "411", "413", "414", "415", "422", "451"}, m[1]+m[2]) {
			return true
		}
	}
	return false
}

func says(pattern, message string) bool { return regexp.MustCompile(pattern).MatchString(message) }
