// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// Bounds of a decoded document. Parameter values, up to 16 levels deep, are six levels
// below its top in a run.
const (
	version      = 1
	maxEncoded   = 64 << 20
	documentDeep = 24
)

// Encode encodes a document as JSON: an object with the fields of [Document].
func Encode(d *Document) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("writing the document of instances: %w", err)
	}
	if b.Len() > maxEncoded {
		return nil, refuse(ErrFull, "the document of instances has %d bytes: at most %d are kept", b.Len(), maxEncoded)
	}
	return b.Bytes(), nil
}

// Decode reads what [Encode] wrote: up to 64 MiB and 24 levels deep, both checked
// before anything is decoded. Unknown names are left to the caller. The contents are
// not checked: see [Check].
func Decode(b []byte) (*Document, error) {
	if len(b) > maxEncoded {
		return nil, fmt.Errorf("document of instances: %d bytes are more than %d", len(b), maxEncoded)
	}
	if err := syntax.CheckData(b, documentDeep); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	if err := d.checkVersionAndSize(); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	return &d, nil
}

// checkVersionAndSize refuses documents that no machine could continue from.
func (d *Document) checkVersionAndSize() error {
	switch {
	case d.Version != version:
		return fmt.Errorf("version %d is not known", d.Version)
	case len(d.Records) > 2*maxRecords || len(d.Templates) > 4*maxRecords || len(d.Pools) > 2*maxRecords || len(d.Requests) > 2*maxRequests:
		return errors.New("more records, templates, pools or requests than a document has")
	case hasNil(d.Templates) || hasNil(d.Records) || hasNil(d.Pools) || hasNil(d.Requests):
		return errors.New("null where something is needed")
	}
	for id, r := range d.Records {
		if r.ID != id {
			return fmt.Errorf("record %q is called %q", clip(id, 32), clip(r.ID, 32))
		}
		tooManyRuns := len(r.Runs) > 2*maxRuns || len(r.Open) > 2*maxOpen
		tooLong := len(r.Events) > 2*maxHistory || len(r.Conditions) > 2*maxHistory
		if tooManyRuns || tooLong || len(r.Notices) > 4*maxUnreported {
			return fmt.Errorf("record %q has more runs, notices, events or conditions than a record has", id)
		}
	}
	return nil
}

func hasNil[V any](m map[string]*V) bool {
	for _, v := range m {
		if v == nil {
			return true
		}
	}
	return false
}

const maxRecord = 16 << 10 // bytes of a record as JSON, without what a pending update adds

// size returns how many bytes a record takes, without the parameters of a run and of a
// change that waits for approval.
func (r *Record) size() int {
	body, err := json.Marshal(r)
	if err != nil {
		return maxRecord + 1
	}
	n := len(body)
	if r.Run != nil {
		n -= sizeOf(r.Run.Parameters)
	}
	if r.Pending != nil && r.Pending.Update != nil {
		n -= sizeOf(r.Pending.Update.Parameters)
	}
	return n
}

// shrink drops the least important parts of a record until it is small enough: texts of
// old runs, old events and runs, then outputs, the largest first.
func (r *Record) shrink() {
	limit := maxRecord
	if r.isWorkspace() {
		limit = maxWorkspaceSize
	}
	if r.size() <= limit {
		return
	}
	for i := range r.Runs {
		if i > 0 {
			r.Runs[i].Error = clip(r.Runs[i].Error, 120)
		}
	}
	for _, keep := range []int{6, 3, 1} {
		if r.size() <= limit {
			return
		}
		r.Events = r.Events[:min(len(r.Events), keep)]
		r.Runs = r.Runs[:min(len(r.Runs), keep)]
	}
	if len(r.Outputs) > 0 {
		r.Outputs = maps.Clone(r.Outputs)
	}
	for len(r.Outputs) > 0 && r.size() > limit {
		names := sortedKeys(r.Outputs)
		delete(r.Outputs, slices.MaxFunc(names, func(a, b string) int { return len(r.Outputs[a]) - len(r.Outputs[b]) }))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
