// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// Bounds of the stored answers to requests that may be repeated.
const (
	requestAge  = time.Hour
	maxRequests = 2000
)

// answer returns the stored answer of a repeated request, and dispatches any other.
func (w notices) answer() (Answer, error) {
	key := w.command.Key
	if key == "" {
		return w.dispatch()
	}
	if q := w.doc.Requests[key]; q != nil && w.now.Sub(q.At) < requestAge {
		if q.Digest != w.command.Digest {
			return Answer{}, refuse(ErrKeyReused, "the key was used for another request")
		}
		return Answer{Status: q.Status, Record: w.doc.Records[q.ID], Repeat: true}, nil
	}
	if r := w.made(key); r != nil {
		return Answer{Status: 200, Record: r, Repeat: true}, nil
	}
	a, err := w.dispatch()
	if err == nil {
		w.remember(a)
	}
	return a, err
}

// made returns the record that a Create with this key made or claimed, at any time
// before.
func (w notices) made(key string) *Record {
	if _, ok := w.command.Event.(Create); !ok {
		return nil
	}
	for _, r := range w.doc.Records {
		if r.Key == key {
			return r
		}
	}
	return nil
}

// remember stores the answer to the command.
func (w notices) remember(a Answer) {
	q := &Request{Caller: w.command.Caller, Digest: w.command.Digest, Status: a.Status, At: w.now}
	if a.Record != nil {
		q.ID = a.Record.ID
	}
	if len(w.doc.Requests) >= maxRequests {
		w.prune()
	}
	for len(w.doc.Requests) >= maxRequests {
		delete(w.requests(), w.surplus())
	}
	w.requests()[w.command.Key] = q
}

// surplus returns the key of the oldest answer of the caller with the most answers.
func (w notices) surplus() string {
	count := map[string]int{}
	limit := ""
	for _, q := range w.doc.Requests {
		count[q.Caller]++
	}
	for caller, n := range count {
		if n > count[limit] || n == count[limit] && caller < limit {
			limit = caller
		}
	}
	oldest := ""
	for key, q := range w.doc.Requests {
		o := w.doc.Requests[oldest]
		older := o == nil || q.At.Before(o.At) || q.At.Equal(o.At) && key < oldest
		if q.Caller == limit && older {
			oldest = key
		}
	}
	return oldest
}

// prune deletes the answers older than an hour.
func (w notices) prune() {
	for key, q := range w.doc.Requests {
		if w.now.Sub(q.At) >= requestAge {
			delete(w.requests(), key)
		}
	}
}
