// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	// Variables are those of the plan. An instance that the ledger lost gets its
	// parameters from them when it is adopted. The document is sealed if any are
	// sensitive.
	Variables map[string]json.RawMessage `json:"variables,omitempty"`
	PlanText  string                     `json:"plan_text,omitempty"` // masked; complete, or "" if it is larger than can be approved
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
	files, err := i.Run(ctx, AttemptOf(ref))
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

// AttemptOf converts a reference to the form that records use.
func AttemptOf(r lifecycle.Ref) records.Attempt {
	return records.Attempt{ID: r.ID, N: r.N, Attempt: r.Attempt, Nonce: r.Nonce}
}
