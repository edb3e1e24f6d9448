// SPDX-License-Identifier: Apache-2.0

package plangate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

const (
	// MaxPayload bounds tofu-controller's request in bytes: a Terraform, and a plan, by default of
	// up to 4 MiB.
	MaxPayload = 16 << 20
	// maxDepth bounds the nesting depth of values.
	maxDepth = 200
)

// payload is a SpecAndPlan: a Terraform with the plan as its status.
type payload struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace  string    `json:"namespace"`
		Name       string    `json:"name"`
		UID        types.UID `json:"uid"`
		Generation int64     `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		ApprovePlan string `json:"approvePlan"`
		Force       bool   `json:"force"`
	} `json:"spec"`
	Status struct {
		Plan *plan `json:"tfplan"`
	} `json:"status"`
}

// plan is the part of the output of `tofu show -json` that describes the changes.
type plan struct {
	Version   string `json:"format_version"`
	Resources []any  `json:"resource_changes"`
	Outputs   any    `json:"output_changes"`
	Checks    []struct {
		Address struct {
			Kind string `json:"kind"`
			Name string `json:"to_display"`
		} `json:"address"`
		Instances []struct {
			Problems []struct {
				Message string `json:"message"`
			} `json:"problems"`
		} `json:"instances"`
	} `json:"checks"`
}

var errNoPlan = errors.New("it contains no tofu plan: the webhook needs payloadType SpecAndPlan")

// parsePayload reads a payload. Numbers keep their notation.
func parsePayload(body []byte) (*payload, error) {
	if text.Levels(body) > maxDepth {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var p payload
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a Terraform: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has data after the Terraform")
	}
	if p.Metadata.Namespace == "" || p.Metadata.Name == "" || p.Metadata.UID == "" || p.Metadata.Generation < 1 {
		return nil, errors.New("it does not identify its Terraform")
	}
	if p.Status.Plan == nil || p.Status.Plan.Version == "" {
		return nil, errNoPlan
	}
	return &p, nil
}

// digest identifies a Terraform's changes by 64 hex digits.
func (p *payload) digest(key []byte) (string, error) {
	canonical, err := json.Marshal(map[string]any{
		"uid": p.Metadata.UID, "resource_changes": p.Status.Plan.Resources, "output_changes": p.Status.Plan.Outputs,
	})
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, key)
	sum.Write(canonical)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readActions counts what the plan does, and names what it forgets and imports and the checks that
// failed.
func (p *plan) readActions() (all fluxexec.Actions) {
	note := func(kind, words string) {
		if len(all.Notes) < lifecycle.MaxNotes {
			all.Notes = append(all.Notes, fluxexec.Note{Kind: kind, Text: text.Excerpt(words)})
		}
	}
	for _, resource := range p.Resources {
		m, _ := resource.(map[string]any)
		address, _ := m["address"].(string)
		change, _ := m["change"].(map[string]any)
		actions, _ := change["actions"].([]any)
		for action, n := range map[string]*int{"create": &all.Adds, "update": &all.Changes, "delete": &all.Removes, "forget": &all.Forgets} {
			if slices.Contains(actions, any(action)) {
				*n++
			}
		}
		if slices.Contains(actions, any("forget")) {
			note(lifecycle.NoteForget, address)
		}
		if change["importing"] != nil {
			all.Imports++
			note(lifecycle.NoteImport, address)
		}
	}
	for _, c := range p.Checks {
		if c.Address.Kind != "check" {
			continue
		}
		for _, in := range c.Instances {
			for _, problem := range in.Problems {
				note(lifecycle.NoteCheck, c.Address.Name+": "+problem.Message)
			}
		}
	}
	return all
}
