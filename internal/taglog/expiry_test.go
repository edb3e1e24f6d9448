// SPDX-License-Identifier: Apache-2.0

package taglog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/taglog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestExpire expires two of three tags, and one that does not exist, twice.
func TestExpire(t *testing.T) {
	for name, test := range map[string]struct {
		quirks  ocitest.Quirks
		second  ocitest.Act // of the deletions; nil: as the others
		want    []string
		deletes int
		refused bool
		err     error // of the first call
	}{
		"deletes tags":       {want: []string{"new"}, deletes: 6},
		"deletes no tags":    {quirks: ocitest.Quirks{NoDelete: true}, want: []string{"new", "old-1", "old-2"}, deletes: 1, refused: true},
		"deletes by digest":  {quirks: ocitest.Quirks{DigestDeleteOnly: true}, want: []string{"new", "old-1", "old-2"}, deletes: 1, refused: true},
		"denies the second":  {second: ocitest.Status(http.StatusForbidden, -1), want: []string{"new", "old-2"}, deletes: 2, refused: true},
		"fails once between": {second: ocitest.Status(http.StatusInternalServerError, -1), want: []string{"new"}, deletes: 5, err: oci.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			deletes := &ocitest.Fault{
				Base:  ocitest.Direct{Handler: ocitest.Handler(t, test.quirks)},
				Match: func(r *http.Request) bool { return r.Method == http.MethodDelete },
				Nth:   2, Do: test.second,
			}
			if test.second == nil {
				deletes.Do = func(r *http.Request, next http.RoundTripper) (*http.Response, error) { return next.RoundTrip(r) }
			}
			repo := must.Get(oci.OpenRepo("registry.test/test/repo", oci.Options{PlainHTTP: true, Transport: deletes, Retry: oci.Retry{MaxAttempts: 1}}))(t)
			for _, tag := range []string{"old-1", "old-2", "new"} {
				must.Succeed(t, artifact.PutDocument(t.Context(), repo, tag, "application/vnd.test.record", oci.BytesBlob("text/plain", []byte(tag)), nil))
			}
			var log bytes.Buffer
			old := taglog.New(repo, slog.New(slog.NewTextHandler(&log, nil)), "old records")
			for call := range 2 {
				err := old.Expire(t.Context(), "old-1", "gone", "old-2")
				if call == 0 && !errors.Is(err, test.err) || call == 1 && err != nil {
					t.Errorf("call %d: %v", call+1, err)
				}
			}
			list, err := repo.Snapshot(t.Context())
			if err != nil || !slices.Equal(slices.Sorted(slices.Values(list.Tags)), test.want) {
				t.Errorf("the tags are %s, want %s: %v", list.Tags, test.want, err)
			}
			lines := strings.Count(log.String(), "so it keeps old records")
			if old.Refused() != test.refused || (lines == 1) != test.refused || deletes.Seen() != test.deletes {
				t.Errorf("refused %t after %d deletions, want %t after %d; %d lines in the log", old.Refused(), deletes.Seen(), test.refused, test.deletes, lines)
			}
		})
	}
}
