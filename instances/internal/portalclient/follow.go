// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// maxFrame bounds one event of a stream, in bytes.
const maxFrame = 256 << 10

// event is one frame of a stream of server-sent events.
type event struct{ id, name, data string }

var errLong = fmt.Errorf("an event of over %d bytes: %w", maxFrame, oci.ErrCorrupt)

// readEvents reads a stream as the server writes it. At its end it returns io.EOF.
func readEvents(from io.Reader, each func(event) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFrame)
	var e event
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.data != "":
			if err := each(e); err != nil {
				return err
			}
			e = event{}
		case line == "":
			e = event{}
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data += value
		}
		if len(e.data) > maxFrame {
			return errLong
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errLong // reopening the stream would return the same event
	case err != nil:
		return err
	}
	return io.EOF
}

var (
	// errEnd reports the end event of a stream.
	errEnd = errors.New("end of the stream")
	errLog = fmt.Errorf("the log: %w", oci.ErrCorrupt)
)

// followPause is how long to wait before a broken stream is reopened.
const followPause = 500 * time.Millisecond

// Follow writes the log of a run, with further attempts, until it ends, and returns its result. A
// broken stream is reopened at its position, on any replica.
func (c *Client) Follow(ctx context.Context, id string, n int, to io.Writer) (result string, err error) {
	var last api.LogPosition
	out := &checked{to: to}
	took := func(e event) error {
		switch e.name {
		case "end":
			var end struct{ Result string }
			_ = json.Unmarshal([]byte(e.data), &end) // the instance has the result as well
			result = end.Result
			return errEnd
		case "attempt": // another attempt, whose log begins
			at, err := api.ParseLogPosition(e.id)
			if err != nil || at.Offset != 0 {
				return errLog
			}
			last = at
			_, err = fmt.Fprintf(out, "\n--- attempt %d ---\n", at.Attempt)
			return err
		case "":
			at, err := api.ParseLogPosition(e.id)
			output := ""
			otherAttempt := last.Attempt != 0 && last.Attempt != at.Attempt
			if err != nil || otherAttempt || at.Offset < last.Offset || json.Unmarshal([]byte(e.data), &output) != nil {
				return errLog
			}
			last = at
			_, err = io.WriteString(out, text.Block(output))
			return err
		}
		return nil
	}
	for {
		header := http.Header{"Accept": {"text/event-stream"}}
		if last.Attempt > 0 {
			header.Set("Last-Event-ID", last.String())
		}
		from, err := c.openRunFile(ctx, id, n, "log", header)
		if err != nil {
			return "", err
		}
		err = readEvents(from, took)
		_ = from.Close() // all of it was read
		if errors.Is(err, errEnd) {
			return result, nil
		}
		if out.err != nil || errors.Is(err, oci.ErrCorrupt) {
			return "", err
		}
		if err := text.Wait(ctx, followPause); err != nil { // the stream broke: the server stopped, or an hour has passed
			return "", err
		}
	}
}

// checked distinguishes write errors of the log's destination from errors of the stream.
type checked struct {
	to  io.Writer
	err error
}

func (w *checked) Write(p []byte) (n int, err error) {
	n, w.err = w.to.Write(p)
	return n, w.err
}
