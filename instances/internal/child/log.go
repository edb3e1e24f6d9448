// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// runLog is the log of an attempt, without masked values. Beyond its limit the middle is cut.
type runLog struct {
	mu       sync.Mutex // guards the fields below
	mask     io.WriteCloser
	limit    int
	headSize int  // size limit of head
	grows    bool // what was shown once is never removed
	ended    bool
	head     []byte
	tail     []byte // at most limit - headSize, a ring buffer
	next     int    // write position in tail once it is full
	cut      int64  // bytes that are in neither head nor tail
	file     *os.File
	moved    int64 // bytes written in total
}

// newRunLog also writes the first limit bytes to a file, for readers on this machine; nil: to none.
func newRunLog(m *masks, limit int, file *os.File) *runLog {
	l := &runLog{limit: limit, headSize: limit / 2, file: file}
	l.mask = m.writer((*maskedLog)(l))
	return l
}

// growTail is the size of the kept end of a log that grows, in bytes.
const growTail = 64 << 10

func (l *runLog) hide(m *masks, values []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.addValues(values)
}

// grow makes it a log of which, beyond its limit, only the end is appended, once it has ended.
func (l *runLog) grow() {
	l.grows = true
	l.headSize = max(l.limit-growTail, l.limit/2)
}

// maskedLog is a runLog behind its mask.
type maskedLog runLog

// Write implements [io.Writer]; the lock is held by [runLog.Write].
func (l *maskedLog) Write(p []byte) (int, error) {
	n := len(p)
	shown := l.limit
	if l.grows {
		shown = l.headSize
	}
	if l.file != nil && l.moved < int64(shown) {
		if _, err := l.file.Write(p[:min(n, shown-int(l.moved))]); err != nil {
			l.file = nil // the log in the registry is authoritative
		}
	}
	l.moved += int64(n)
	if room := l.headSize - len(l.head); room > 0 {
		part := p[:min(room, n)]
		l.head = append(l.head, part...)
		p = p[len(part):]
	}
	size := l.limit - l.headSize
	if len(p) > size {
		l.cut += int64(len(p) - size)
		p = p[len(p)-size:]
	}
	if room := size - len(l.tail); room > 0 {
		part := p[:min(room, len(p))]
		l.tail = append(l.tail, part...)
		p = p[len(part):]
	}
	for len(p) > 0 {
		k := copy(l.tail[l.next:], p)
		l.cut += int64(k)
		l.next = (l.next + k) % size
		p = p[k:]
	}
	return n, nil
}

// Write implements [io.Writer].
func (l *runLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mask.Write(p)
}

func (l *runLog) logLine(format string, args ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", args...) // it is kept in memory
}

// endLog writes what the mask holds back; nothing may be written after it.
func (l *runLog) endLog() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.mask.Close() // as in line
	l.ended = true
	if l.grows && l.file != nil {
		_, _ = l.file.Write(l.joinBytes()[len(l.head):]) // the log in the registry is authoritative
	}
}

// size returns how much was written so far.
func (l *runLog) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// bytes returns the log so far, slightly more than its limit at most.
func (l *runLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joinBytes()
}

// joinBytes returns the same as bytes; the lock is held.
func (l *runLog) joinBytes() []byte {
	b := bytes.Clone(l.head)
	if l.grows && !l.ended {
		return b
	}
	if l.cut > 0 {
		if !l.grows {
			b = trimRune(b)
		}
		b = fmt.Appendf(b, "\n… %d bytes are omitted here …\n", l.cut)
	}
	tail := append(bytes.Clone(l.tail[l.next:]), l.tail[:l.next]...)
	if l.cut > 0 {
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return append(b, tail...)
}

// trimRune removes an incomplete character from the end.
func trimRune(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// push calls put with the log at intervals, if it grew, until ctx ends.
func (l *runLog) push(ctx context.Context, every time.Duration, put func(context.Context, []byte) error) error {
	t := time.NewTicker(every)
	defer t.Stop()
	var pushed int64
	var last error
	for {
		select {
		case <-ctx.Done():
			if errors.Is(last, context.Canceled) {
				return nil
			}
			return last
		case <-t.C:
		}
		if n := l.size(); n > pushed {
			if last = put(ctx, l.bytes()); last == nil {
				pushed = n
			}
		}
	}
}

// Answer runs the tool with the order's question, and writes its output to out, which ends with
// [sandbox.Answered] if the tool succeeded. env lacks what depends on the tool's folder.
func Answer(o sandbox.Order, env []string, out io.Writer) error {
	dir, err := o.Open()
	if err != nil {
		return err
	}
	t, err := o.Start(dir, sandbox.Command{
		Args: o.Ask, Dir: sandbox.Tool, Stdout: out, Stderr: out,
		Env: append(env, "HOME="+string(dir.Inside(sandbox.Tool)), "TMPDIR="+string(dir.Inside(sandbox.Temp)), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull),
	})
	if err != nil {
		return err
	}
	if err := t.Wait(); err != nil {
		return err
	}
	_, err = io.WriteString(out, sandbox.Answered)
	return err
}
