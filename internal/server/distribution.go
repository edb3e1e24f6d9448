// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// noRegistry answers clients that take this server for the registry that it stores in: a 404
// without a code would mean a missing repository.
func noRegistry(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNSUPPORTED","message":"this server keeps its content in another registry: use that registry"}]}`) // an error means that the client is gone
}

// distribution passes an authorised request to the embedded registry, by method, path and query.
// Forms are refused: a registry that reads them could see other values.
func (f *Front) distribution(w http.ResponseWriter, r *http.Request) error {
	if f.o.Embedded == nil {
		noRegistry(w)
		return nil
	}
	list := r.URL.Path == "/v2/_catalog" && r.Method == http.MethodGet
	if list || r.URL.Path == "/v2/" { // clients send credentials once they are asked to
		if err := f.kit.Guard.AllowLogin(r); err != nil {
			return err
		}
	}
	if list {
		return listRepositories(f, w, r)
	}
	grant, err := f.kit.Guard.AllowAll(r, distributionRights(f.o.Layout, r))
	if err != nil {
		return err
	}
	if strings.HasPrefix(r.URL.Path, "/v2/"+embedded.RepositoryOf(r.URL.Path)+"/blobs/uploads/") {
		access.Unwatch(r)
	}
	if isForm(r) {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "forms are not supported: send the bytes as application/octet-stream"}
	}
	if err := f.kit.OpenBody(r); err != nil {
		return err
	}
	if !f.kit.Guard.IsProxied(r) { // the library believes everybody
		for _, name := range forwarded {
			r.Header.Del(name)
		}
	}
	if name := grant.Name(); name != "" {
		w.Header().Set(oci.CallerHeader, url.QueryEscape(name))
	}
	rec := httpserve.NewResponse(w)
	var push *push
	var refused error
	f.o.Embedded.ServeHTTP(rec, r.WithContext(embedded.WithTurn(r.Context(), func(mediaType string, manifest []byte, write func()) {
		push = f.pushOf(grant, r)
		if refused = push.checkLock(mediaType, manifest); refused == nil {
			write()
			push.recordChange(rec)
		}
	})))
	if refused != nil {
		return refused
	}
	if s := rec.Status(); r.Method == http.MethodPut && s == http.StatusCreated || r.Method == http.MethodDelete && s == http.StatusAccepted {
		f.updateCaches(r)
	}
	push.finishLater(rec)
	return nil
}

// listRepositories answers /v2/_catalog with what the caller may read, in pages by the
// specification.
func listRepositories(f *Front, w http.ResponseWriter, r *http.Request) error {
	grant, err := f.kit.Guard.Allow(r, rights.Right{Action: rights.List, Kind: rights.AnyKind})
	if err != nil {
		return err
	}
	all, err := f.o.Client.Repositories(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	all = slices.DeleteFunc(all, func(name string) bool {
		return name <= q.Get("last") || !grant.May(rights.RightTo(f.o.Layout, rights.Read, name))
	})
	if !grant.May(rights.Right{Action: rights.Read, Kind: addr.KindState, Address: rights.Everything}) {
		w.Header().Set(oci.PartialHeader, "states") // whether there are any that were left out or not
	}
	if n, err := strconv.Atoi(q.Get("n")); err == nil && 0 < n && n < len(all) {
		all = all[:n]
		next := url.Values{"n": {q.Get("n")}, "last": {all[n-1]}}
		w.Header().Set("Link", "</v2/_catalog?"+next.Encode()+`>; rel="next"`)
	}
	return service.WriteJSON(w, http.StatusOK, map[string][]string{"repositories": append([]string{}, all...)})
}

// distributionRights returns the rights that a request needs, to its repository and each from which
// it mounts a blob, by method, path and query alone.
func distributionRights(l addr.Layout, r *http.Request) []rights.Right {
	if r.URL.Path == "/v2/" {
		return nil // the answer says only that there is a registry
	}
	action := rights.Publish
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = rights.Read
	}
	var needed []rights.Right
	for _, from := range r.URL.Query()["from"] {
		if from != "" {
			needed = append(needed, rights.RightTo(l, rights.Read, from))
		}
	}
	return append(needed, rights.RightTo(l, action, embedded.RepositoryOf(r.URL.Path)))
}

// isForm reports whether a library would read form values from the body, of malformed types too.
func isForm(r *http.Request) bool {
	for _, header := range r.Header.Values("Content-Type") {
		t, _, _ := mime.ParseMediaType(header)
		if t == "application/x-www-form-urlencoded" || strings.HasPrefix(t, "multipart/") {
			return true
		}
	}
	return false
}

// updateCaches updates caches after a write or deletion. A version is added to the catalog too: its
// client may lack the right to write that.
func (f *Front) updateCaches(r *http.Request) {
	repository := embedded.RepositoryOf(r.URL.Path)
	c := f.Protocols.Catalog()
	reference, ok := strings.CutPrefix(r.URL.Path, "/v2/"+repository+"/manifests/")
	if ok && repository == f.o.Layout.CatalogRepo() {
		c.ChangedPublished()
	}
	it, parsed := f.o.Layout.Parse(repository)
	if t, state := format.ParseStateTag(reference); parsed && state && t.Kind == format.StateNumbered && f.uses.Uses != nil {
		f.uses.Uses.Note(it.State)
	}
	if !ok || !parsed || !it.Published() {
		return
	}
	c.Changed(repository, reference)
	if _, version := addr.VersionFromTag(reference); !version || r.Method != http.MethodPut {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	if err := f.depot.AddTitled(ctx, it, reference); err != nil {
		f.o.Logger.Warn("a version was pushed and is not listed in the catalog", "repository", repository, "tag", reference, "error", err)
		return
	}
	c.ChangedPublished()
}

// recordState records what a request to the http backend changed, or that it was refused or failed,
// maybe after changes.
func recordState(g access.Grant, r *http.Request, made []access.Change, status int) {
	if access.Outcome(status) != access.Done && len(made) == 0 {
		made = []access.Change{{Action: stateAction(r.Method), Lock: r.URL.Query().Get("ID")}}
	}
	for _, c := range made {
		g.Record(g.Address(), c.Ended(status))
	}
}

func stateAction(method string) rights.Action {
	if method == http.MethodPost || method == http.MethodPut {
		return rights.Write
	}
	return rights.Action(strings.ToLower(method))
}
