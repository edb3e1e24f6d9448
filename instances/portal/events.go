// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/service"
)

// streamEvents streams what happens to the instances that the caller may see, resumable on any
// replica by an event's time. A record keeps ten events: who was away for long reloads.
func streamEvents(s *server, w http.ResponseWriter, r call[struct{}]) error {
	since, resumed, err := service.LastEvent(r.request)
	if err != nil {
		return err
	}
	f := &feed{s: s, c: r.caller, newest: map[string]reported{}}
	if resumed {
		f.since = time.Unix(0, since)
	} else {
		f.remember(r.view.Document)
	}
	again := func(ctx context.Context) error {
		c, err := identifyCaller(s, r.request)
		if err == nil {
			_, c, err = requireUser(s, r.request, c, r.view)
			f.c = c
		}
		return err
	}
	return s.streams.Answer(w, r.request, r.caller.key, again, f.sendNext)
}

// feed is the state of one caller's event stream.
type feed struct {
	s      *server
	c      caller
	since  time.Time // older events were sent before the stream broke
	last   *lifecycle.Document
	newest map[string]reported // by instance
}

// reported is what was sent last of an instance.
type reported struct {
	event lifecycle.History
	phase lifecycle.Phase
}

// remember marks the whole document as sent.
func (f *feed) remember(d *lifecycle.Document) {
	f.last = d
	for id, r := range d.Records {
		f.newest[id] = reportedOf(r)
	}
}

func (f *feed) sendNext(ctx context.Context, out *service.Stream) (bool, error) {
	v, err := f.s.o.Store.View(ctx)
	if err != nil {
		return true, err
	}
	if v.Document == f.last {
		return false, nil
	}
	for _, e := range f.freshEvents(v.Document) {
		out.Send(strconv.FormatInt(e.At.UnixNano(), 10), "instance", e)
	}
	f.remember(v.Document)
	for id := range f.newest {
		if _, there := v.Document.Records[id]; !there {
			delete(f.newest, id)
		}
	}
	return false, nil
}

// maySeeEvent reports whether a caller gets an event; one with an offer gets that alone.
func maySeeEvent(r *lifecycle.Record, h lifecycle.History, have role) bool {
	return have&reads != 0 || have&receives != 0 && h.Action == "offered" && h.At.Equal(r.Offer.At)
}

func reportedOf(r *lifecycle.Record) reported {
	t := reported{phase: r.Phase}
	if len(r.Events) > 0 {
		t.event = r.Events[0]
	}
	return t
}

// phaseEntered returns when an instance entered its phase, as far as its record shows.
func phaseEntered(r *lifecycle.Record) time.Time {
	at := r.ReadyAt
	for _, other := range []time.Time{r.ClaimedAt, r.FinishedAt} {
		if other.After(at) {
			at = other
		}
	}
	if len(r.Runs) > 0 && r.Runs[0].EndedAt.After(at) {
		at = r.Runs[0].EndedAt
	}
	return at
}

// freshEvents returns the events that were not sent yet, in the order of time.
func (f *feed) freshEvents(d *lifecycle.Document) []api.Event {
	var all []api.Event
	as := f.c.judgeFor(d)
	for id, r := range d.Records {
		before, known := f.newest[id]
		if lifecycle.IsWorkspaceTemplate(r.Template) || known && before == reportedOf(r) {
			continue
		}
		have := as.role(r)
		if have&(reads|receives) == 0 {
			continue
		}
		add := func(e api.Event) {
			e.Instance = id
			e.Template = r.Template
			e.Phase = string(r.Phase)
			all = append(all, e)
		}
		n := len(all)
		for _, h := range r.Events {
			if known && h == before.event || !known && !h.At.After(f.since) {
				break
			}
			if maySeeEvent(r, h, have) {
				add(eventDoc(h, have))
			}
		}
		phaseChanged := known && before.phase != r.Phase || !known && phaseEntered(r).After(f.since)
		if len(all) == n && have&reads != 0 && phaseChanged {
			add(api.Event{At: d.Clock.At, Action: "phase"}) // no actor: a run ended
		}
	}
	slices.SortFunc(all, func(a, b api.Event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Instance, b.Instance))
	})
	return all
}
