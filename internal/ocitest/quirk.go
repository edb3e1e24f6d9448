// SPDX-License-Identifier: Apache-2.0

package ocitest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Quirks are registries' deviations; zero is distribution with deletion.
type Quirks struct {
	NoDelete         bool    // every DELETE: 405 (distribution's default, GHCR, Docker Hub)
	DigestDeleteOnly bool    // DELETE of a tag: 405 UNSUPPORTED (Harbor, ACR, distribution 2.8)
	TagDeleteOnly    bool    // DELETE of a digest: 405 UNSUPPORTED (Artifact Registry while tagged)
	PageSize         int     // tag lists come in pages of this size, with Link (GHCR, ECR)
	AbsoluteLinks    bool    // Link is a whole URL with a wrong scheme, as behind a proxy
	EndlessLink      bool    // the last page repeats its own Link
	NoDigestHeader   bool    // no Docker-Content-Digest in any answer
	LateList         int     // a pushed tag is missing from the next n lists (caches: Quay, mirrors)
	CachedList       bool    // tag lists carry an Age header
	Immutable        bool    // PUT of an existing tag with other bytes: 412 (Harbor's rules)
	RedirectBlobs    string  // GET of a blob: 307 to this URL prefix + digest (S3, GCS)
	NoRange          bool    // ranges on blobs are ignored
	HalfLinks        int     // the first n manifest PUTs after the push of a blob find its link half written (distribution 2.8)
	FreshMissing     int     // a digest just pushed answers 404 to the next n reads (GHCR)
	EchoHeaders      bool    // refusals repeat the request's headers in their messages
	NoMount          bool    // a mount begins an upload (202), even if the blob exists
	RefuseMount      bool    // a mount: 405 UNSUPPORTED
	NoSinglePost     bool    // a POST with the bytes of a blob begins an upload (202; distribution)
	RefuseSinglePost bool    // a POST with the bytes of a blob: 400 SIZE_INVALID
	Auth             *Issuer // authentication and rights; nil: all requests are allowed
}

func (q Quirks) wrap(h http.Handler) http.Handler {
	if q.PageSize > 0 || q.EndlessLink {
		h = q.pageTags(h)
	}
	if q.LateList > 0 {
		h = lateList(h, q.LateList)
	}
	if q.HalfLinks > 0 {
		h = halfLinks(h, q.HalfLinks)
	}
	if q.FreshMissing > 0 {
		h = freshMissing(h, q.FreshMissing)
	}
	if q.Immutable {
		h = refuseMoves(h)
	}
	h = q.simpleQuirks(h)
	if q.Auth != nil {
		h = q.Auth.protect(h)
	}
	if q.EchoHeaders {
		h = echoHeaders(h)
	}
	return h
}

// keepsPlace reports whether a manifest cannot be deleted by its tag or its digest.
func (q Quirks) keepsPlace(p place) bool {
	if p.digest() {
		return q.TagDeleteOnly
	}
	return q.DigestDeleteOnly
}

// simpleQuirks applies the stateless quirks.
func (q Quirks) simpleQuirks(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := parsePlace(r.URL.Path)
		switch {
		case r.Method == http.MethodDelete && p.kind == "manifest" && q.keepsPlace(p):
			sendRefusal(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported.")
			return
		case r.Method == http.MethodGet && p.kind == "blob" && q.RedirectBlobs != "":
			http.Redirect(w, r, q.RedirectBlobs+p.ref, http.StatusTemporaryRedirect)
			return
		}
		if q.NoRange {
			r.Header.Del("Range")
		}
		if p.kind == "upload" && r.Method == http.MethodPost {
			query := r.URL.Query()
			if query.Get("mount") != "" && q.RefuseMount {
				sendRefusal(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported.")
				return
			}
			if q.RefuseSinglePost && query.Has("digest") {
				sendRefusal(w, http.StatusBadRequest, "SIZE_INVALID", "The length of the content is not known.")
				return
			}
			if q.NoMount || q.NoSinglePost && query.Has("digest") {
				r = r.Clone(r.Context())
				r.URL.RawQuery = ""
			}
		}
		if q.NoDigestHeader {
			w = &headerDropper{ResponseWriter: w, name: "Docker-Content-Digest"}
		}
		if q.CachedList && p.kind == "tags" {
			w.Header().Set("Age", "30")
		}
		h.ServeHTTP(w, r)
	})
}

// headerDropper removes one header just before the response is sent.
type headerDropper struct {
	http.ResponseWriter
	name string
}

func (d *headerDropper) WriteHeader(status int) {
	d.Header().Del(d.name)
	d.ResponseWriter.WriteHeader(status)
}

func (d *headerDropper) Write(p []byte) (int, error) {
	d.Header().Del(d.name)
	return d.ResponseWriter.Write(p)
}

// listTags returns the inner tag list, or nil and the response.
func listTags(h http.Handler, r *http.Request) ([]string, *httptest.ResponseRecorder) {
	rec := httptest.NewRecorder()
	r = r.Clone(r.Context())
	r.URL.RawQuery = ""
	h.ServeHTTP(rec, r)
	var doc struct {
		Tags []string `json:"tags"`
	}
	if rec.Code != http.StatusOK || json.Unmarshal(rec.Body.Bytes(), &doc) != nil {
		return nil, rec
	}
	return doc.Tags, nil
}

func replayResponse(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func writeTags(w http.ResponseWriter, name string, tags []string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags})
}

func (q Quirks) pageTags(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := parsePlace(r.URL.Path)
		if r.Method != http.MethodGet || p.kind != "tags" {
			h.ServeHTTP(w, r)
			return
		}
		tags, other := listTags(h, r)
		if other != nil {
			replayResponse(w, other)
			return
		}
		slices.Sort(tags)
		size := q.PageSize
		if n, err := strconv.Atoi(r.URL.Query().Get("n")); err == nil && n > 0 && (size == 0 || n < size) {
			size = n
		}
		last := r.URL.Query().Get("last")
		i, found := slices.BinarySearch(tags, last)
		if found {
			i++
		}
		tags = tags[i:]
		more := size > 0 && len(tags) > size
		if more {
			tags = tags[:size]
		}
		if more || q.EndlessLink && len(tags) > 0 {
			w.Header().Set("Link", q.link(r, size, tags[len(tags)-1]))
		} else if q.EndlessLink {
			w.Header().Set("Link", q.link(r, size, last))
		}
		writeTags(w, p.name, tags)
	})
}

func (q Quirks) link(r *http.Request, size int, last string) string {
	u := fmt.Sprintf("%s?last=%s&n=%d", r.URL.Path, last, size)
	if q.AbsoluteLinks {
		u = "https://" + r.Host + u
	}
	return "<" + u + `>; rel="next"`
}

// countdown is how often something is still refused, by key.
type countdown struct {
	mu   sync.Mutex // guards left
	left map[string]int
}

// isSet reports whether a key was ever set.
func (c *countdown) isSet(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.left[key]
	return ok
}

// set begins to count down from n.
func (c *countdown) set(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[key] = n
}

// take counts down by one and reports whether it was above 0.
func (c *countdown) take(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left[key] <= 0 {
		return false
	}
	c.left[key]--
	return true
}

// lateList hides a new tag from the next n lists, which show a prefix in order of pushes.
func lateList(h http.Handler, n int) http.Handler {
	hidden := countdown{left: map[string]int{}}
	var one sync.Mutex // of the tags of a list, or of a push
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := parsePlace(r.URL.Path)
		switch {
		case r.Method == http.MethodPut && p.kind == "manifest" && !p.digest():
			one.Lock()
			defer one.Unlock()
			if !hidden.isSet(p.name + ":" + p.ref) {
				hidden.set(p.name+":"+p.ref, n)
			}
		case r.Method == http.MethodGet && p.kind == "tags":
			tags, other := listTags(h, r)
			if other != nil {
				replayResponse(w, other)
				return
			}
			one.Lock()
			tags = slices.DeleteFunc(tags, func(tag string) bool { return hidden.take(p.name + ":" + tag) })
			one.Unlock()
			writeTags(w, p.name, tags)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// halfLinks refuses n manifests after a blob's push, as distribution 2.8 with an empty link file.
func halfLinks(h http.Handler, n int) http.Handler {
	half := countdown{left: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := parsePlace(r.URL.Path); blobArrives(r, p) {
			half.set(p.name, n)
		} else if r.Method == http.MethodPut && p.kind == "manifest" && half.take(p.name) {
			sendRefusal(w, http.StatusBadRequest, "DIGEST_INVALID", "provided digest did not match uploaded content", "MANIFEST_BLOB_UNKNOWN", "blob unknown to registry")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// blobArrives reports whether a request carries the last bytes of a blob.
func blobArrives(r *http.Request, p place) bool {
	return p.kind == "upload" && (r.Method == http.MethodPut || r.Method == http.MethodPost && r.URL.Query().Has("digest"))
}

// freshMissing answers 404 to the first n reads of a digest after its push.
func freshMissing(h http.Handler, n int) http.Handler {
	missing := countdown{left: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := parsePlace(r.URL.Path)
		switch {
		case r.Method == http.MethodPut && p.kind == "manifest" && p.digest():
			missing.set(p.name+"@"+p.ref, n)
		case blobArrives(r, p):
			missing.set(p.name+"@"+r.URL.Query().Get("digest"), n)
		case (r.Method == http.MethodGet || r.Method == http.MethodHead) && missing.take(p.name+"@"+p.ref):
			sendRefusal(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "not here yet")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refuseMoves refuses to move an existing tag.
func refuseMoves(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := parsePlace(r.URL.Path)
		if r.Method != http.MethodPut || p.kind != "manifest" || p.digest() {
			h.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			sendRefusal(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
			return
		}
		rec := httptest.NewRecorder()
		get := httptest.NewRequest(http.MethodGet, r.URL.Path, nil).WithContext(r.Context())
		get.Header.Set("Accept", r.Header.Get("Content-Type"))
		h.ServeHTTP(rec, get)
		if rec.Code == http.StatusOK && rec.Body.String() != string(body) {
			sendRefusal(w, http.StatusPreconditionFailed, "PRECONDITION", "tag "+p.ref+" is immutable")
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		h.ServeHTTP(w, r)
	})
}

// echoHeaders repeats the request's headers in every refusal.
func echoHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code < 400 {
			replayResponse(w, rec)
			return
		}
		maps.Copy(w.Header(), rec.Header())
		w.Header().Del("Content-Length")
		sendRefusal(w, rec.Code, "DENIED", fmt.Sprintf("refused, your headers were %v", r.Header))
	})
}

// sendRefusal sends an error response. codes are codes and their messages in turn.
func sendRefusal(w http.ResponseWriter, status int, codes ...string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	var list []map[string]string
	for pair := range slices.Chunk(codes, 2) {
		list = append(list, map[string]string{"code": pair[0], "message": pair[1]})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": list})
}

// mountFrom returns the repository that a request mounts a blob from, or "".
func mountFrom(r *http.Request) string {
	if r.Method != http.MethodPost || parsePlace(r.URL.Path).kind != "upload" {
		return ""
	}
	return r.URL.Query().Get("from")
}

// place is the parsed path of a request to the distribution API.
type place struct{ kind, name, ref string }

func (p place) digest() bool { return strings.Contains(p.ref, ":") }

// parsePlace sorts paths into the kinds of [On]; outside /v2/ it is "token".
func parsePlace(path string) place {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		if path == "/v2" {
			return place{kind: "ping"}
		}
		return place{kind: "token"}
	}
	if rest == "" {
		return place{kind: "ping"}
	}
	if name, ok := strings.CutSuffix(rest, "/tags/list"); ok {
		return place{kind: "tags", name: name}
	}
	for _, k := range []struct{ mark, kind string }{
		{"/blobs/uploads/", "upload"}, {"/blobs/", "blob"}, {"/manifests/", "manifest"}, {"/referrers/", "referrers"},
	} {
		if i := strings.LastIndex(rest, k.mark); i > 0 {
			return place{kind: k.kind, name: rest[:i], ref: rest[i+len(k.mark):]}
		}
	}
	return place{kind: "other"}
}
