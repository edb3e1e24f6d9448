// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// Bounds of a document that is read. Values of parameters, up to 16 levels deep,
// stand six levels below its top in a run.
const (
	version      = 1
	maxEncoded   = 64 << 20
	documentDeep = 24
)

// Encode writes a document as JSON: an object with the names of [Document].
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

// Decode reads what [Encode] wrote: up to 64 MiB and 24 levels deep, which is
// looked at before anything is made of it. Names that a document does not have are
// left to the caller. What it says is not judged: see [Check].
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
	if err := d.whole(); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	return &d, nil
}

// whole refuses what no machine could go on with.
func (d *Document) whole() error {
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
		if len(r.Runs) > 2*maxRuns || len(r.Open) > 2*maxOpen || len(r.Notices) > 4*maxUntold || len(r.Events) > 2*maxHistory || len(r.Conditions) > 2*maxHistory {
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
