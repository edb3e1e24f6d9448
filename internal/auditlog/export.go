// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteCSV writes entries (RFC 4180) with a header, every field quoted, with a leading ' before
// what a spreadsheet could take for a formula. each calls its argument for each.
func WriteCSV(to io.Writer, each func(do func(*Entry) error) error) error {
	names := []string{"time", "request_id", "action", "kind", "address", "version", "from_version", "digest", "lock_id", "run", "detail", "decision", "rule", "mode", "subject", "issuer", "client_ip", "user_agent", "status", "outcome"}
	if err := writeFields(to, names); err != nil {
		return err
	}
	return each(func(e *Entry) error {
		return writeFields(to, []string{
			e.Time.UTC().Format(time.RFC3339Nano), e.RequestID, e.Action, e.Kind, e.Address, e.Version, e.From, e.Digest, e.Lock, formatNumber(int64(e.Run)), e.Detail,
			e.Decision, e.Rule, e.Mode, e.Subject, e.Issuer, e.ClientIP, e.UserAgent, formatNumber(int64(e.Status)), e.Result(),
		})
	})
}

func formatNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func writeFields(to io.Writer, fields []string) error {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		if f != "" && strings.IndexByte("=+-@\t\r", f[0]) >= 0 {
			b.WriteByte('\'')
		}
		b.WriteString(strings.ReplaceAll(f, `"`, `""`))
		b.WriteByte('"')
	}
	b.WriteString("\r\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// WriteJSONLines writes entries as JSON, one per line.
func WriteJSONLines(to io.Writer, each func(do func(*Entry) error) error) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	return each(func(e *Entry) error { return enc.Encode(e) })
}
