// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/text"
)

// AddDryRun gives commands that change a registry the flag --dry-run: the command does all that it
// does otherwise, but what it writes stays in this process.
func (reg *Registries) AddDryRun(commands ...*cobra.Command) {
	for _, c := range commands {
		c.Flags().BoolVar(&reg.DryRun, "dry-run", false, "print the result, but do not change the registry; the permission to write is not checked")
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if reg.DryRun {
				reg.Note("dry run: the registry is not changed")
			}
			return run(cmd, args)
		}
	}
}

// rehearsal is a transport that keeps what would change a registry, and answers reads of it.
type rehearsal struct {
	base    http.RoundTripper
	mu      sync.Mutex // guards written; requests wait for each other
	written map[string]*rehearsed
}

// rehearsed is a manifest or a blob of a host and repository; nil: it was deleted.
type rehearsed struct {
	mediaType, digest string
	body              []byte // of a blob its first 4 MiB: commands hardly read their own
}

var contentPath = text.Pattern(`^/v2/(.+)/(manifests|blobs|tags)/(.+)$`)

func (t *rehearsal) RoundTrip(r *http.Request) (*http.Response, error) {
	m := contentPath().FindStringSubmatch(r.URL.Path)
	if m == nil {
		return t.base.RoundTrip(r)
	}
	repo := r.URL.Host + " " + m[1] + " "
	body, err := readStart(r) // before the lock: its source may send requests of its own
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one, known := t.written[repo+m[3]]
	switch read := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case !read:
		return t.keepWritten(r, body, repo, m[3]), nil
	case m[2] == "tags":
		return t.listTags(r, repo)
	case !known:
		return t.base.RoundTrip(r)
	case one == nil:
		return one.answer(r, http.StatusNotFound), nil
	}
	return one.answer(r, http.StatusOK), nil
}

// readStart reads a body whole, and returns its first 4 MiB.
func readStart(r *http.Request) (b []byte, err error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	if b, err = io.ReadAll(io.LimitReader(r.Body, 4<<20)); err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return b, err
}

func (t *rehearsal) keepWritten(r *http.Request, body []byte, repo, ref string) *http.Response {
	one := &rehearsed{mediaType: r.Header.Get("Content-Type"), body: body}
	status, blob := http.StatusCreated, r.URL.Query().Get("digest")+r.URL.Query().Get("mount")
	switch {
	case r.Method == http.MethodDelete:
		one, status = nil, http.StatusAccepted
	case !strings.HasPrefix(ref, "uploads/"):
		one.digest = digest.FromBytes(one.body).String()
		t.written[repo+one.digest] = one
	case blob == "":
		status, ref = http.StatusAccepted, "uploads/"
	default:
		ref = blob
	}
	t.written[repo+ref] = one
	return one.answer(r, status)
}

// listTags adds the tags that would be there to a list, and leaves out those that would not.
func (t *rehearsal) listTags(r *http.Request, repo string) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var list struct {
		Tags []string `json:"tags"`
	}
	there := resp.StatusCode == http.StatusOK && json.Unmarshal(b, &list) == nil
	for name, one := range t.written {
		tag, ok := strings.CutPrefix(name, repo)
		if ok = ok && !strings.ContainsAny(tag, ":/"); ok && one == nil {
			list.Tags = slices.DeleteFunc(list.Tags, func(s string) bool { return s == tag })
		} else if ok && (there || resp.StatusCode == http.StatusNotFound) {
			list.Tags, there = append(list.Tags, tag), true
		}
	}
	if there {
		resp.StatusCode = http.StatusOK
		b, err = json.Marshal(list)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, err
}

func (one *rehearsed) answer(r *http.Request, status int) *http.Response {
	resp := &http.Response{StatusCode: status, Request: r, Body: http.NoBody, Header: http.Header{
		"Date": {time.Now().UTC().Format(http.TimeFormat)}, "Location": {r.URL.Path + "dry-run"}}}
	if one == nil {
		return resp
	}
	if one.digest != "" {
		resp.Header.Set("Docker-Content-Digest", one.digest)
	}
	if status == http.StatusOK {
		resp.Header.Set("Content-Type", one.mediaType)
		resp.ContentLength = int64(len(one.body))
		if r.Method == http.MethodGet {
			resp.Body = io.NopCloser(bytes.NewReader(one.body))
		}
	}
	return resp
}
