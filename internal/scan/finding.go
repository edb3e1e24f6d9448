// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"cmp"
	"slices"
	"strings"
)

// Finding is one finding of a scanner, with the texts of its report.
type Finding struct {
	Level   string // critical, high, medium or low
	Rule    string // name of the rule, or of a vulnerability
	Link    string // explanation of the rule; untrusted
	Title   string
	File    string // "" if the report names none
	Line    int    // 0: the whole file
	Package string // with its version, for a vulnerability
	Fixed   string // version of the package without the vulnerability, "" if there is none
}

// severityNames returns the names of severities, the worst first.
func severityNames() []string { return []string{"critical", "high", "medium", "low"} }

// Bounds of a displayed finding.
const (
	maxTitle = 300 // characters
	maxName  = 200
)

// Findings returns a SARIF report's findings, worst first, up to limit, and counts by severity.
func Findings(report []byte, limit int) ([]Finding, Counts, error) {
	doc, err := readSARIF(report)
	if err != nil {
		return nil, Counts{}, err
	}
	var all []Finding
	var counts Counts
	for result, rules := range doc.eachFinding() {
		level := result.severity(rules)
		counts.addSeverity(level)
		if slices.Contains(severityNames(), level) {
			all = append(all, newFinding(result, rules, level))
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severityNames(), a.Level), slices.Index(severityNames(), b.Level))
	})
	return slices.Clip(all[:min(len(all), limit)]), counts, nil
}

func newFinding(r sarifResult, rules []sarifRule, level string) Finding {
	f := Finding{Level: level, Rule: cutText(r.RuleID, maxName)}
	text := r.Message.Text
	if rule, ok := r.findRule(rules); ok {
		f.Rule = cutText(cmp.Or(r.RuleID, rule.ID), maxName)
		f.Link = cutText(rule.HelpURI, 10*maxName)
		f.Title = rule.ShortDescription.Text
	}
	if f.Title == "" {
		f.Title, _, _ = strings.Cut(text, "\n")
	}
	f.Title = cutText(f.Title, maxTitle)
	if len(r.Locations) > 0 {
		at := r.Locations[0].PhysicalLocation
		f.File = cutText(at.ArtifactLocation.URI, maxName)
		f.Line = max(at.Region.StartLine, 0)
	}
	f.Package, f.Fixed = packageOf(text)
	return f
}

// packageOf parses Trivy's lines (github.com/aquasecurity/trivy/pkg/report/sarif.go).
func packageOf(message string) (name, fixed string) {
	value := map[string]string{}
	for line := range strings.Lines(message) {
		if key, v, ok := strings.Cut(line, ":"); ok {
			value[key] = strings.TrimSpace(v)
		}
	}
	if value["Package"] == "" {
		return "", ""
	}
	return cutText(strings.TrimSpace(value["Package"]+" "+value["Installed Version"]), maxName), cutText(value["Fixed Version"], maxName)
}

// cutText returns at most limit characters of a text.
func cutText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	for i := range s {
		if limit--; limit < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
