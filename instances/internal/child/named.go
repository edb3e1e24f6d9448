// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	ledgerWorkspace = "ledger"
	maxLedger       = 64 << 20
	maxLedgers      = 100 // repositories of a ledger
)

// ledgerReader looks up attempts in the ledger of an order. Its calls are serialized.
type ledgerReader struct {
	order     *sandbox.Order
	userAgent string

	mu     sync.Mutex          // guards the fields below
	number int                 // of the current repository, as far as known
	store  *statebackend.Store // of that repository; nil: not open yet
	last   int64               // last version read there; 0: none
	page   ledgerPage          // content of that version
}

// readNamed reads the newest version by the tag list: the moving tag of a workspace may be stale.
func (l *ledgerReader) readNamed(ctx context.Context, ref lifecycle.Ref) (Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range maxLedgers {
		err := l.readNewest(ctx)
		if err != nil {
			return Standing{}, oci.IgnoreNotFound(err)
		}
		if moved := l.page.Moved; moved != nil && moved.Number > l.number {
			l.number = moved.Number
			l.store = nil
			l.last = 0
			l.page = ledgerPage{}
			continue
		}
		r := l.page.Records[ref.ID]
		if r == nil || r.Run == nil {
			return Standing{}, nil
		}
		run := r.Run
		same := run.Kind == ref.Kind && run.N == ref.N && run.Attempt == ref.Attempt
		same = same && subtle.ConstantTimeCompare([]byte(run.Nonce), []byte(ref.Nonce)) == 1
		return Standing{Named: same, Cancel: run.Cancel, Force: run.Force}, nil
	}
	return Standing{}, fmt.Errorf("the ledger %s refers to too many successors: %w", l.order.Spec.Ledger, oci.ErrCorrupt)
}

// ledgerPage is the part of a ledger that is decoded.
type ledgerPage struct {
	Moved *struct {
		Number int `json:"number"`
	} `json:"moved"`
	Records map[string]*lifecycle.Record `json:"records"`
}

// readNewest reads the newest version, unless it was the last one read; only the attempt is kept.
func (l *ledgerReader) readNewest(ctx context.Context) error {
	if err := l.openReader(); err != nil {
		return err
	}
	list, err := l.store.List(ctx)
	if err != nil {
		return err
	}
	if n := list.Numbers(ledgerWorkspace); l.last > 0 && len(n) > 0 && n[0] == l.last {
		return nil
	}
	v, err := list.View(ctx, ledgerWorkspace, func(b []byte, _ statebackend.Version) error {
		var p ledgerPage
		if err := json.Unmarshal(b, &p); err != nil {
			return fmt.Errorf("the ledger %s: %v: %w", l.store.Repo(), err, oci.ErrCorrupt)
		}
		id := l.order.Spec.Ref.ID
		l.page = ledgerPage{Moved: p.Moved, Records: map[string]*lifecycle.Record{id: p.Records[id]}}
		return nil
	})
	if err != nil {
		return err
	}
	l.last = v.N
	return nil
}

func (l *ledgerReader) openReader() error {
	if l.store != nil {
		return nil
	}
	name := l.order.Spec.Ledger
	if l.number > 1 {
		name += "-" + strconv.Itoa(l.number)
	}
	repo, err := openRepo(l.order, name, l.userAgent)
	if err != nil {
		return err
	}
	sealer, err := sealerOf(l.order)
	if err != nil {
		return err
	}
	o := statebackend.Options{StrictReads: true, MaxState: maxLedger}
	if sealer != nil {
		o.Sealer = sealer
	}
	l.store = statebackend.New(repo, o)
	return nil
}
