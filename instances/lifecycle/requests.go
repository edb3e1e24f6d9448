// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// Bounds of the stored answers to requests that may be repeated.
const (
	requestAge  = time.Hour
	maxRequests = 2000
)

// answerCommand returns the stored answer of a repeated request, and dispatches any
// other.
func answerCommand(tx *tx) (Answer, error) {
	key := tx.command.Key
	if key == "" {
		return tx.command.Event.apply(tx)
	}
	if q := tx.doc.Requests[key]; q != nil && tx.now.Sub(q.At) < requestAge {
		if q.Digest != tx.command.Digest {
			return Answer{}, refuse(ErrKeyReused, "the key was used for another request")
		}
		return Answer{Status: q.Status, Record: tx.doc.Records[q.ID], Repeat: true}, nil
	}
	if r := findByKey(tx, key); r != nil {
		return Answer{Status: 200, Record: r, Repeat: true}, nil
	}
	a, err := tx.command.Event.apply(tx)
	if err == nil {
		rememberAnswer(tx, a)
	}
	return a, err
}

// findByKey returns the record that a Create with this key made or claimed, at any time
// before.
func findByKey(tx *tx, key string) *Record {
	if _, ok := tx.command.Event.(Create); !ok {
		return nil
	}
	for _, r := range tx.doc.Records {
		if r.Key == key {
			return r
		}
	}
	return nil
}

// rememberAnswer stores the answer to the command.
func rememberAnswer(tx *tx, a Answer) {
	q := &Request{Caller: tx.command.Caller, Digest: tx.command.Digest, Status: a.Status, At: tx.now}
	if a.Record != nil {
		q.ID = a.Record.ID
	}
	if len(tx.doc.Requests) >= maxRequests {
		pruneRequests(tx)
	}
	for len(tx.doc.Requests) >= maxRequests {
		delete(tx.editRequests(), surplusRequest(tx))
	}
	tx.editRequests()[tx.command.Key] = q
}

// surplusRequest returns the key of the oldest answer of the caller with the most
// answers.
func surplusRequest(tx *tx) string {
	count := map[string]int{}
	limit := ""
	for _, q := range tx.doc.Requests {
		count[q.Caller]++
	}
	for caller, n := range count {
		if n > count[limit] || n == count[limit] && caller < limit {
			limit = caller
		}
	}
	oldest := ""
	for key, q := range tx.doc.Requests {
		o := tx.doc.Requests[oldest]
		older := o == nil || q.At.Before(o.At) || q.At.Equal(o.At) && key < oldest
		if q.Caller == limit && older {
			oldest = key
		}
	}
	return oldest
}

// pruneRequests deletes the answers older than an hour.
func pruneRequests(tx *tx) {
	for key, q := range tx.doc.Requests {
		if tx.now.Sub(q.At) >= requestAge {
			delete(tx.editRequests(), key)
		}
	}
}
