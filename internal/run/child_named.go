// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	ledgerWorkspace = "ledger"
	maxLedger       = 64 << 20
	maxLedgers      = 100 // repositories that a ledger has had
)

// ledgerReader asks the ledger of an order whether it names an attempt.
type ledgerReader struct {
	order     *Order
	userAgent string
	number    int // of the repository that counts, as far as is known
}

// named reads the newest version by the tag list: the moved tag of a workspace may
// be old.
func (l *ledgerReader) named(ctx context.Context, ref instance.Ref) (bool, string, error) {
	for range maxLedgers {
		doc, err := l.read(ctx)
		if errors.Is(err, oci.ErrNotFound) {
			return false, "", nil
		}
		if err != nil {
			return false, "", err
		}
		if doc.Moved != nil && doc.Moved.Number > l.number {
			l.number = doc.Moved.Number
			continue
		}
		r := doc.Records[ref.ID]
		if r == nil || r.Run == nil {
			return false, "", nil
		}
		run := r.Run
		same := run.Kind == ref.Kind && run.N == ref.N && run.Attempt == ref.Attempt
		return same && subtle.ConstantTimeCompare([]byte(run.Nonce), []byte(ref.Nonce)) == 1, run.Cancel, nil
	}
	return false, "", fmt.Errorf("the ledger %s goes on without end: %w", l.order.Spec.Ledger, oci.ErrCorrupt)
}

// ledgerPage is the part of a ledger that is read.
type ledgerPage struct {
	Moved *struct {
		Number int `json:"number"`
	} `json:"moved"`
	Records map[string]*instance.Record `json:"records"`
}

func (l *ledgerReader) read(ctx context.Context) (ledgerPage, error) {
	var p ledgerPage
	name := l.order.Spec.Ledger
	if l.number > 1 {
		name += "-" + strconv.Itoa(l.number)
	}
	repo, err := l.order.OpenRepo(name, l.userAgent)
	if err != nil {
		return p, err
	}
	sealer, err := l.order.Sealer()
	if err != nil {
		return p, err
	}
	o := statebackend.Options{StrictReads: true, MaxState: maxLedger}
	if sealer != nil {
		o.Sealer = sealer
	}
	b, _, err := statebackend.New(repo, o).Get(ctx, ledgerWorkspace)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("the ledger %s: %v: %w", name, err, oci.ErrCorrupt)
	}
	return p, nil
}
