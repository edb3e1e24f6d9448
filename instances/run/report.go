// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/oci"
)

// Report is the outcome of an attempt: the JSON document of its run tag.
type Report struct {
	Version  int               `json:"version"` // 1
	Nonce    string            `json:"nonce"`
	Kind     lifecycle.RunKind `json:"kind"`
	Run      string            `json:"run"` // for display
	Source   template.Source   `json:"source"`
	Snapshot string            `json:"snapshot,omitempty"` // digest of the template
	lifecycle.Result
	// Variables are those of the plan. An instance that the ledger lost gets its parameters from
	// them when it is adopted. The document is sealed if any are sensitive.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	PlanText  string                     `json:"plan_text,omitempty"` // masked; complete, or "" if it is larger than can be approved
	Uses      json.RawMessage            `json:"uses,omitempty"`      // of a workspace's plan: what init installed, as it is recorded with the state
	Head      int64                      `json:"head,omitempty"`      // version of the state at the end; 0: none, or not known
	Started   time.Time                  `json:"started,omitzero"`
	Ended     time.Time                  `json:"ended,omitzero"`
}

// InClear returns the report without the values that only a sealed report may contain.
func (r Report) InClear(sensitive []string) Report {
	r.Variables = maps.Clone(r.Variables)
	maps.DeleteFunc(r.Variables, func(name string, _ json.RawMessage) bool { return slices.Contains(sensitive, name) })
	return r
}

// ReadReport reads the report of an attempt and returns it with its files, which include
// log and plan: oci.ErrNotFound if there is none yet, oci.ErrCorrupt if it does not
// repeat the attempt's nonce.
func ReadReport(ctx context.Context, i records.InstanceRepo, ref lifecycle.Ref) (Report, records.RunResult, error) {
	files, err := i.Run(ctx, ref)
	if err != nil {
		return Report{}, files, err
	}
	var r Report
	if err := json.Unmarshal(files.JSON, &r); err != nil {
		return Report{}, files, fmt.Errorf("result of attempt %d of run %d of %s: %v: %w", ref.Attempt, ref.N, ref.ID, err, oci.ErrCorrupt)
	}
	if r.Version != 1 || r.Kind != ref.Kind {
		return Report{}, files, fmt.Errorf("result of attempt %d of run %d of %s: version %d of kind %q: %w", ref.Attempt, ref.N, ref.ID, r.Version, r.Kind, oci.ErrCorrupt)
	}
	return r, files, nil
}

// Permanent reports whether an error of the tool is permanent: another attempt with the
// same module and values would fail with it again. The argument is one error message of
// the tool. Unknown errors are assumed to be temporary.
func Permanent(message string) bool {
	if _, after, ok := strings.Cut(message, "Error: "); ok {
		message = after
	}
	message = strings.Join(strings.Fields(message), " ") // the tool wraps its lines
	if isMatch(configured, message) || isMatch(unavailable, message) {
		return true
	}
	return isRefused(message) && !isMatch(transient, message)
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

// isRefused reports whether an API refused a request because of its content: by a status
// that the same request would get again (RFC 9110, 15.5). 401 is not one of them: the
// next attempt has new credentials.
func isRefused(message string) bool {
	for _, m := range regexp.MustCompile(numbered).FindAllStringSubmatch(message, -1) {
		if slices.Contains([]string{"400", "402", "403", "404", "405", "406", "410", "411", "413", "414", "415", "422", "451"}, m[1]+m[2]) {
			return true
		}
	}
	return false
}

func isMatch(pattern, message string) bool { return regexp.MustCompile(pattern).MatchString(message) }
