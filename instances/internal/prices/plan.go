// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxPlan bounds a plan as JSON, in bytes; one resource at a time is in memory.
const MaxPlan = 64 << 20

// maxDepth bounds the depth of skipped values: the decoder keeps track of each level.
const maxDepth = 1000

// Of adds up the prices of a plan in show -json format, without any value in result or error.
func (t *Table) Of(plan io.Reader) (*Cost, error) {
	s := &sum{rows: map[string][]Row{}, cost: Cost{Currency: t.Currency}}
	for _, row := range t.Rows {
		s.rows[row.Type] = append(s.rows[row.Type], row)
	}
	bounded := &io.LimitedReader{R: plan, N: MaxPlan + 1}
	err := s.readPlan(json.NewDecoder(bounded))
	if bounded.N <= 0 {
		return nil, fmt.Errorf("plan of more than %d bytes as JSON", MaxPlan)
	}
	if err != nil {
		return nil, errors.New("not a plan in JSON")
	}
	return &s.cost, nil
}

// sum accumulates the cost of the resources.
type sum struct {
	rows map[string][]Row // by type
	cost Cost
}

func (s *sum) readPlan(d *json.Decoder) error {
	if err := wantDelim(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name == "resource_changes" {
			err = s.readChanges(d)
		} else {
			err = skipValue(d)
		}
		if err != nil {
			return err
		}
	}
	return wantDelim(d, json.Delim('}'))
}

func (s *sum) readChanges(d *json.Decoder) error {
	if err := wantDelim(d, json.Delim('[')); err != nil {
		return err
	}
	for d.More() {
		var r resource
		if err := d.Decode(&r); err != nil {
			return err
		}
		if r.Mode == "managed" {
			s.addResource(r)
		}
	}
	return wantDelim(d, json.Delim(']'))
}

func wantDelim(d *json.Decoder, delim json.Delim) error {
	token, err := d.Token()
	if err == nil && token != delim {
		err = errors.New("it is something else")
	}
	return err
}

func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return errors.New("nested too deeply")
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// resource is the change of one resource. A replaced one has both before and after.
type resource struct {
	Mode   string `json:"mode"`
	Type   string `json:"type"`
	Change struct {
		Before  map[string]json.RawMessage `json:"before"`        // nil: it is created
		After   map[string]json.RawMessage `json:"after"`         // nil: it is destroyed
		Unknown json.RawMessage            `json:"after_unknown"` // an object whose attributes are true or again objects; or false
	} `json:"change"`
}

func (s *sum) addResource(r resource) {
	if r.Change.Before == nil && r.Change.After == nil {
		return
	}
	before, known := s.price(r.Type, r.Change.Before, nil)
	var unknown map[string]json.RawMessage
	_ = json.Unmarshal(r.Change.Unknown, &unknown) // false if it is destroyed
	after, knownAfter := s.price(r.Type, r.Change.After, unknown)
	if !known || !knownAfter {
		s.cost.Unpriced++
		return
	}
	s.cost.Priced++
	s.cost.Before += before
	s.cost.After += after
}

// price returns the price of a resource, 0 for none; unknown if an attribute's value is.
func (s *sum) price(kind string, values, unknown map[string]json.RawMessage) (hourly int64, known bool) {
	if values == nil {
		return 0, true
	}
	for _, row := range s.rows[kind] {
		if row.Attribute == "" {
			hourly = row.Hourly
			known = true
			continue
		}
		if u := unknown[row.Attribute]; len(u) > 0 && string(u) == "true" {
			return 0, false
		}
		if value, ok := asText(values[row.Attribute]); ok && value == row.Value {
			return row.Hourly, true
		}
	}
	return hourly, known
}

// asText returns a string, number or boolean in the form used in a table.
func asText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || strings.ContainsRune("{[n", rune(raw[0])) {
		return "", false
	}
	var s string
	if raw[0] == '"' {
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	}
	return string(raw), true
}
