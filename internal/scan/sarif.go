// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Counts is the number of findings by severity.
type Counts struct {
	Critical int `json:"critical"`
	High     int `json:"high"`
	Medium   int `json:"medium"`
	Low      int `json:"low"`
}

// CheckLevel refuses an unknown severity; "" means none.
func CheckLevel(level string) error {
	switch level {
	case "", "low", "medium", "high", "critical":
		return nil
	}
	return fmt.Errorf("unknown level %q: must be critical, high, medium or low", level)
}

// Blocks reports whether there is a finding of at least level; "" blocks nothing.
func (c Counts) Blocks(level string) bool {
	total := 0
	switch level {
	case "low":
		total += c.Low
		fallthrough
	case "medium":
		total += c.Medium
		fallthrough
	case "high":
		total += c.High
		fallthrough
	case "critical":
		total += c.Critical
	}
	return total > 0
}

// Max returns the higher count of each severity.
func (c Counts) Max(o Counts) Counts {
	return Counts{max(c.Critical, o.Critical), max(c.High, o.High), max(c.Medium, o.Medium), max(c.Low, o.Low)}
}

func (c Counts) String() string {
	return fmt.Sprintf("%d critical, %d high, %d medium, %d low", c.Critical, c.High, c.Medium, c.Low)
}

// sarif is the part of SARIF 2.1.0 that is used.
type sarif struct {
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct{ Rules []sarifRule }
		}
		Results []sarifResult
	}
}

type sarifRule struct {
	ID                   string
	Name                 string
	HelpURI              string
	ShortDescription     sarifText
	Properties           map[string]json.RawMessage
	DefaultConfiguration struct{ Level string }
}

type sarifResult struct {
	RuleID       string
	RuleIndex    *int
	Level        string
	Kind         string // "pass", "notApplicable" … are no findings; "" is "fail"
	Message      sarifText
	Locations    []sarifLocation
	Suppressions []json.RawMessage
}

type sarifText struct{ Text string }

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct{ URI string }
		Region           struct{ StartLine int }
	}
}

func parseSARIF(b []byte) (Counts, error) {
	doc, err := readSARIF(b)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	for result, rules := range doc.eachFinding() {
		c.addSeverity(result.severity(rules))
	}
	return c, nil
}

func readSARIF(b []byte) (sarif, error) {
	var doc sarif
	if err := json.Unmarshal(b, &doc); err != nil {
		return doc, fmt.Errorf("the report is not SARIF: %w", err)
	}
	if !strings.HasPrefix(doc.Version, "2.") || doc.Runs == nil {
		return doc, fmt.Errorf("the report is not SARIF 2")
	}
	return doc, nil
}

// eachFinding yields results that are findings, with their run's rules.
func (s sarif) eachFinding() iter.Seq2[sarifResult, []sarifRule] {
	return func(yield func(sarifResult, []sarifRule) bool) {
		for _, run := range s.Runs {
			for _, result := range run.Results {
				if (result.Kind == "" || result.Kind == "fail") && len(result.Suppressions) == 0 && !yield(result, run.Tool.Driver.Rules) {
					return
				}
			}
		}
	}
}

func (c *Counts) addSeverity(severity string) {
	switch severity {
	case "critical":
		c.Critical++
	case "high":
		c.High++
	case "medium":
		c.Medium++
	case "low":
		c.Low++
	}
}

func (r sarifResult) severity(rules []sarifRule) string {
	level := r.Level
	if rule, ok := r.findRule(rules); ok {
		if score, ok := rule.ruleScore(); ok {
			return severityOf(score)
		}
		level = cmp.Or(level, rule.DefaultConfiguration.Level)
	}
	switch level {
	case "error":
		return "high"
	case "note":
		return "low"
	case "none":
		return ""
	}
	return "medium" // warning is SARIF's default
}

func (r sarifResult) findRule(rules []sarifRule) (sarifRule, bool) {
	if r.RuleIndex != nil && *r.RuleIndex >= 0 && *r.RuleIndex < len(rules) {
		return rules[*r.RuleIndex], true
	}
	for _, rule := range rules {
		if rule.ID == r.RuleID {
			return rule, true
		}
	}
	return sarifRule{}, false
}

// ruleScore parses security-severity, which tools write as text or as a number.
func (r sarifRule) ruleScore() (float64, bool) {
	text := strings.Trim(string(r.Properties["security-severity"]), `"`)
	score, err := strconv.ParseFloat(text, 64)
	return score, err == nil
}

func severityOf(score float64) string {
	switch {
	case score >= 9:
		return "critical"
	case score >= 7:
		return "high"
	case score >= 4:
		return "medium"
	}
	return "low"
}
