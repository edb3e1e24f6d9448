// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/service"
)

// Bounds of streams.
const (
	openStreams      = 256 // at once
	maxCallerStreams = 4   // of them for one caller
	streamTime       = time.Hour
	streamStall      = 30 * time.Second // until who reads nothing is dropped
)

// streams counts those that are open.
type streams struct {
	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int
}

func newStreams() *streams { return &streams{by: map[string]int{}} }

func (s *streams) take(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= openStreams || s.by[caller] >= maxCallerStreams {
		return false
	}
	s.taken++
	s.by[caller]++
	return true
}

func (s *streams) leave(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[caller]--; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}

// stream is an answer as server-sent events. Each frame has one data line, whose
// text is JSON: no line end of a log makes a frame of its own.
type stream struct {
	w       *service.Paced
	control *http.ResponseController
	broken  error // nobody reads any more
}

// send writes one frame. An empty id leaves what the client goes on from.
func (s *stream) send(id, event string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		s.broken = err
		return
	}
	frame := ""
	if id != "" {
		frame = "id: " + id + "\n"
	}
	if event != "" {
		frame += "event: " + event + "\n"
	}
	s.write(frame + "data: " + string(text) + "\n\n")
}

func (s *stream) write(text string) {
	if s.broken != nil {
		return
	}
	if _, s.broken = io.WriteString(s.w, text); s.broken == nil {
		s.broken = s.control.Flush()
	}
}

// eventStream answers a request with events, until next says that it is over. Next is
// asked at once, then whenever there may be something new. Again tells whether the
// caller still may, and is asked every minute.
func (s *server) eventStream(w http.ResponseWriter, r *http.Request, c caller, again func(context.Context) error, next func(context.Context, *stream) (done bool, err error)) error {
	if !s.streams.take(c.key) {
		return service.TooMany("streams")
	}
	defer s.streams.leave(c.key)
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	out := &stream{w: service.NewPaced(w, streamStall), control: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects answers would show nothing for a long time
	w.WriteHeader(http.StatusOK)
	out.write("retry: 2000\n\n")
	poll, beat, ask := time.NewTicker(s.o.Poll), time.NewTicker(s.o.Beat), time.NewTicker(s.o.Again)
	defer poll.Stop()
	defer beat.Stop()
	defer ask.Stop()
	for {
		done, err := next(ctx, out)
		if err != nil { // the status is sent: the client comes again and is told
			s.kit.Log(r).Warn("stream ended", "path", service.LogPath(r), "error", err)
			return nil
		}
		if done || out.broken != nil {
			return nil
		}
		for wait := true; wait; {
			select {
			case <-ctx.Done():
				return nil
			case <-s.kit.Closing():
				return nil
			case <-poll.C:
				wait = false
			case <-beat.C:
				out.write(": it goes on\n\n")
			case <-ask.C:
				if again(ctx) != nil {
					return nil
				}
			}
			if out.broken != nil {
				return nil
			}
		}
	}
}

// lastEventID is the header with the id that a client read last.
const lastEventID = "Last-Event-ID"

// notSent refuses an id that no stream has sent.
func notSent(err error) error {
	return &service.Error{Status: http.StatusBadRequest, Text: lastEventID + ": " + err.Error()}
}

// lastEvent is where a stream whose ids are numbers goes on; ok is false for one
// that begins.
func lastEvent(r *http.Request) (n int64, ok bool, err error) {
	text := r.Header.Get(lastEventID)
	if text == "" {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < 0 {
		return 0, false, notSent(fmt.Errorf("%.40q: want a number that this stream has sent", text))
	}
	return n, true, nil
}
