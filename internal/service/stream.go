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
	openStreams      = 256 // in total
	maxCallerStreams = 4   // for one caller
	streamTime       = time.Hour

	// StreamStall is how long a stream waits for a client that reads nothing.
	StreamStall = 30 * time.Second
)

// Pace sets the intervals of a stream's periodic work. Zero fields have defaults.
type Pace struct {
	Poll      time.Duration // check for something new; 0: 1 s
	Heartbeat time.Duration // send a heartbeat; 0: 15 s
	Again     time.Duration // check the caller's right again; 0: 1 min
}

// Streams answers with server-sent events, bounded in number. It is safe for concurrent use.
type Streams struct {
	kit  *Kit
	pace Pace

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int
}

// NewStreams returns Streams with no stream open.
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

// Stream is server-sent events, each frame one data line of JSON.
type Stream struct {
	w       *Response
	control *http.ResponseController
	broken  error // the first write error; nothing is sent after it
}

// Send writes a frame. With an empty id the client's position stays.
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

// Text sends what from holds of a text, from offset at up to end, and returns the offset after it;
// id makes event IDs. A cut character is left for the next call unless the text is whole.
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

// wholeRunes returns how many bytes are whole characters.
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

// Answer answers a caller's request with events until next returns done. It calls next at
// once and then every Poll. Again returns an error if the caller has lost its right.
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
	h.Set("X-Accel-Buffering", "no") // a buffering proxy would show nothing for a long time
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
		if err != nil { // the status is sent: the client reconnects and then gets the error
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

// LastEventID is the header with the ID that a client read last.
const LastEventID = "Last-Event-ID"

// NotSent refuses an ID that no stream has sent.
func NotSent(err error) error {
	return &Error{Status: http.StatusBadRequest, Text: LastEventID + ": " + err.Error()}
}

// LastEvent returns where a stream with numeric IDs resumes; not ok: it begins.
func LastEvent(r *http.Request) (n int64, ok bool, err error) {
	text := r.Header.Get(LastEventID)
	if text == "" {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n < 0 {
		return 0, false, NotSent(fmt.Errorf("%.40q: must be an ID that this stream has sent", text))
	}
	return n, true, nil
}
