// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds of streams.
const (
	openStreams      = 256 // at once
	maxCallerStreams = 4   // of them for one caller
	streamTime       = time.Hour

	// StreamStall is how long a stream waits for who reads nothing.
	StreamStall = 30 * time.Second
)

// Pace is how often a stream does what no request asks for. Zero fields have defaults.
type Pace struct {
	Poll      time.Duration // it looks for something new; 0: a second
	Heartbeat time.Duration // it says that it lives; 0: 15 s
	Again     time.Duration // the caller's right is checked again; 0: a minute
}

// Streams answers with server-sent events, and bounds how many such answers are under
// way. It is safe for concurrent use.
type Streams struct {
	kit  *Kit
	pace Pace

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int
}

// NewStreams returns one without streams.
func NewStreams(k *Kit, p Pace) *Streams {
	p = Pace{cmp.Or(p.Poll, time.Second), cmp.Or(p.Heartbeat, 15*time.Second), cmp.Or(p.Again, time.Minute)}
	return &Streams{kit: k, pace: p, by: map[string]int{}}
}

func (s *Streams) acquire(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= openStreams || s.by[caller] >= maxCallerStreams {
		return false
	}
	s.taken++
	s.by[caller]++
	return true
}

func (s *Streams) release(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[caller]--; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}

// Stream is an answer as server-sent events. Each frame has one data line, whose
// text is JSON: no line end of a log makes a frame of its own.
type Stream struct {
	w       *Response
	control *http.ResponseController
	broken  error // nobody reads any more
}

// Send writes one frame. An empty id leaves what the client goes on from.
func (s *Stream) Send(id, event string, data any) {
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

func (s *Stream) write(text string) {
	if s.broken != nil {
		return
	}
	if _, s.broken = io.WriteString(s.w, text); s.broken == nil {
		s.broken = s.control.Flush()
	}
}

// piece is how much text one frame carries, in bytes.
const piece = 16 << 10

// Text sends what there is of a text, and returns the offset behind what was sent. At is
// the offset of its first byte, most the offset behind which nothing is sent, and id what
// a client has read that comes to an offset. Unless the text is whole, bytes at its end
// that are no character yet are left for the next time.
func (s *Stream) Text(from io.Reader, at, end int64, whole bool, id func(offset int64) string) (int64, error) {
	buf := make([]byte, piece)
	kept := 0
	for s.broken == nil && at < end {
		n, err := io.ReadFull(from, buf[kept:])
		n += kept
		send := n
		if err == nil || !whole {
			send = wholeRunes(buf[:n])
		}
		if send > 0 {
			at += int64(send)
			s.Send(id(at), "", strings.ToValidUTF8(string(buf[:send]), "\uFFFD"))
			kept = copy(buf, buf[send:n])
		} else {
			kept = n
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// wholeRunes is how many of the bytes are whole characters: the last one may come
// in two pieces.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// Answer answers a request of a caller with events, until next says that it is over.
// Next is asked at once, then whenever there may be something new. Again reports whether
// the caller still may.
func (s *Streams) Answer(w http.ResponseWriter, r *http.Request, caller string, again func(context.Context) error, next func(context.Context, *Stream) (done bool, err error)) error {
	if !s.acquire(caller) {
		return TooMany("streams")
	}
	defer s.release(caller)
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	out := &Stream{w: NewPaced(w, StreamStall), control: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects answers would show nothing for a long time
	w.WriteHeader(http.StatusOK)
	out.write("retry: 2000\n\n")
	poll := time.NewTicker(s.pace.Poll)
	heartbeat := time.NewTicker(s.pace.Heartbeat)
	ask := time.NewTicker(s.pace.Again)
	defer poll.Stop()
	defer heartbeat.Stop()
	defer ask.Stop()
	for {
		done, err := next(ctx, out)
		if err != nil { // the status is sent: the client comes again and gets the error
			s.kit.Log(r).Warn("stream ended", "path", LogPath(r), "error", err)
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
			case <-heartbeat.C:
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

// LastEventID is the header with the id that a client read last.
const LastEventID = "Last-Event-ID"

// NotSent refuses an id that no stream has sent.
func NotSent(err error) error {
	return &Error{Status: http.StatusBadRequest, Text: LastEventID + ": " + err.Error()}
}

// LastEvent is where a stream whose ids are numbers goes on; ok is false for one
// that begins.
func LastEvent(r *http.Request) (n int64, ok bool, err error) {
	text := r.Header.Get(LastEventID)
	if text == "" {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < 0 {
		return 0, false, NotSent(fmt.Errorf("%.40q: want a number that this stream has sent", text))
	}
	return n, true, nil
}
