// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/maphash"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/distribution/distribution/v3/registry/api/errcode"
)

// TagRule decides which manifests may be written under a tag, and deleted.
type TagRule interface {
	// Guards reports whether the rule is about a tag or digest; others may be written and deleted.
	Guards(repository, reference string) bool
	// Allow returns why a manifest may not have the tag, or "". It may read the registry.
	Allow(ctx context.Context, repository, reference, mediaType string, manifest []byte) (refusal string, err error)
	// AllowDelete is Allow for DELETE; that of a digest deletes all its tags.
	AllowDelete(ctx context.Context, repository, reference string) (refusal string, err error)
}

// Turn writes a manifest, or deletes it or a blob, unless it leaves out write. No other
// write to the repository is in between, and its body has arrived. It holds one of 64 locks
// that repositories share: it must not write to the registry itself, or it waits for itself.
type Turn func(mediaType string, manifest []byte, write func())

type turnKey struct{}

// WithTurn returns the context of a request that may write by turn only.
func WithTurn(ctx context.Context, t Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// ruled asks a rule before a manifest is written, or something deleted, one at a time.
type ruled struct {
	http.Handler
	rule  TagRule // nil: everything is allowed
	seed  maphash.Seed
	locks [64]sync.Mutex // by the hash of the repository
}

func (h *ruled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repository := RepositoryOf(r.URL.Path)
	kind, reference, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"+repository+"/"), "/")
	isRuled := kind == "manifests" && (r.Method == http.MethodPut || r.Method == http.MethodDelete) || kind == "blobs" && r.Method == http.MethodDelete
	if !isRuled {
		h.Handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxManifest+1))
	if err != nil || len(body) > maxManifest {
		refuse(w, http.StatusBadRequest, errcode.ErrorCodeManifestInvalid.WithMessage("manifest incomplete or too large"))
		return
	}
	lock := &h.locks[maphash.String(h.seed, repository)%uint64(len(h.locks))]
	lock.Lock()
	defer lock.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if turn, ok := r.Context().Value(turnKey{}).(Turn); ok {
		turn(r.Header.Get("Content-Type"), body, func() { h.writeRuled(w, r, repository, reference, body) })
		return
	}
	h.writeRuled(w, r, repository, reference, body)
}

// writeRuled passes a request on if the rule allows it.
func (h *ruled) writeRuled(w http.ResponseWriter, r *http.Request, repository, reference string, body []byte) {
	var refusal string
	var err error
	switch {
	case h.rule == nil || !h.rule.Guards(repository, reference):
	case r.Method == http.MethodDelete:
		refusal, err = h.rule.AllowDelete(r.Context(), repository, reference)
	default:
		refusal, err = h.rule.Allow(r.Context(), repository, reference, r.Header.Get("Content-Type"), body)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, errcode.ErrorCodeUnknown.WithMessage("read "+reference+" before the write: "+err.Error()))
	case refusal != "":
		refuse(w, http.StatusConflict, errcode.ErrorCodeDenied.WithMessage(refusal))
	default:
		h.Handler.ServeHTTP(w, r)
	}
}

// refuse answers in the form of the distribution specification.
func refuse(w http.ResponseWriter, status int, e errcode.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errcode.Errors{e}) // an error means that the client is gone
}
