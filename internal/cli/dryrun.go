// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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

var contentPath = text.Pattern(`^/v2/(.+)/(manifests|blobs|tags|referrers)/(.+)$`)

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
		return t.changeList(r, func(b []byte, found bool) ([]byte, error) { return t.addTags(b, found, repo) })
	case m[2] == "referrers":
		return t.changeList(r, func(b []byte, found bool) ([]byte, error) { return t.addReferrers(b, found, repo, m[3]) })
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

// changeList answers with the list that change makes of the registry's; nil: there is none.
func (t *rehearsal) changeList(r *http.Request, change func(b []byte, found bool) ([]byte, error)) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if found := resp.StatusCode == http.StatusOK; found || resp.StatusCode == http.StatusNotFound {
		changed, err := change(b, found)
		if err != nil {
			return nil, err
		}
		if changed != nil {
			resp.StatusCode, b = http.StatusOK, changed
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, nil
}

// addTags adds the tags that would be there, and leaves out those that would not.
func (t *rehearsal) addTags(b []byte, found bool, repo string) ([]byte, error) {
	var list struct {
		Tags []string `json:"tags"`
	}
	there := found && json.Unmarshal(b, &list) == nil
	for name, one := range t.written {
		tag, ok := strings.CutPrefix(name, repo)
		if ok = ok && !strings.ContainsAny(tag, ":/"); ok && one == nil {
			list.Tags = slices.DeleteFunc(list.Tags, func(s string) bool { return s == tag })
		} else if ok {
			list.Tags, there = append(list.Tags, tag), true
		}
	}
	if !there {
		return nil, nil
	}
	return json.Marshal(list)
}

// addReferrers adds the manifests that would refer to a digest, if the registry lists such.
func (t *rehearsal) addReferrers(b []byte, found bool, repo, subject string) ([]byte, error) {
	var list ocispec.Index
	if !found || json.Unmarshal(b, &list) != nil {
		return nil, nil
	}
	for name, one := range t.written {
		var m ocispec.Manifest
		if one == nil || name != repo+one.digest || json.Unmarshal(one.body, &m) != nil || m.Subject == nil || string(m.Subject.Digest) != subject {
			continue
		}
		list.Manifests = append(list.Manifests, ocispec.Descriptor{
			MediaType: one.mediaType, Digest: digest.Digest(one.digest), Size: int64(len(one.body)),
			ArtifactType: cmp.Or(m.ArtifactType, m.Config.MediaType), Annotations: m.Annotations,
		})
	}
	return json.Marshal(list)
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
