// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/web"
)

// rulesFile reads the rules that something else than a person writes.
func (s *Settings) rulesFile() (access.RulesFile, error) {
	if s.RulesFile == "" {
		return access.RulesFile{}, nil
	}
	out, err := access.ReadRules(s.RulesFile)
	if err != nil {
		return out, syntax.WrongAt(s.RulesRange, fmt.Errorf("rules_file: %w", err))
	}
	for _, r := range out.Rules {
		if err := s.Cloud.checkReserved(hcl.Range{Filename: s.RulesFile}, r.Allow); err != nil {
			return access.RulesFile{}, err
		}
	}
	return out, nil
}

// rulesState is how the rules file was read last, for people.
type rulesState struct {
	mu      sync.Mutex // guards the fields below
	rules   int        // that count
	problem string     // why the file was not read last; "": it was
	since   time.Time  // of the problem, or of the rules
}

func (m *Metrics) rulesRead(rules int) {
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	m.rules.rules, m.rules.problem, m.rules.since = rules, "", time.Now()
}

func (m *Metrics) rulesFailed(err error) {
	m.rulesErrors.Inc()
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	m.rules.problem, m.rules.since = err.Error(), time.Now()
}

// rulesFindings are whether the rules file is read as it is now.
func rulesFindings(m *Metrics) []web.Finding {
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	if m.rules.since.IsZero() {
		return nil // there is none
	}
	at := m.rules.since.UTC().Format("2006-01-02 15:04 UTC")
	if m.rules.problem == "" {
		return []web.Finding{{
			About: "Rules file", State: fmt.Sprintf("%d rules, read %s", m.rules.rules, at), Meaning: "What the file says counts, a change within seconds.",
		}}
	}
	return []web.Finding{{
		Verdict: web.Act, About: "Rules file", State: "not read since " + at + ": " + m.rules.problem,
		Meaning: fmt.Sprintf("The %d rules from before count on; nothing that was given or taken since does.", m.rules.rules),
		Do:      "Mend the file, or what writes it.",
	}}
}
