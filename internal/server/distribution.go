// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/service"
)

// noRegistry answers clients that take this server for the registry that it stores in.
// A 404 without a code would tell them that a repository is not there.
func noRegistry(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNSUPPORTED","message":"this server stores in another registry: name that one"}]}`) // the client is gone; there is nobody to tell
}

// distribution lets a request through to the embedded registry. Method, path
// and query decide; a form in the body could say something else to a registry
// that looks there first, so there are no forms.
func (f *Front) distribution(w http.ResponseWriter, r *http.Request) error {
	if f.o.Embedded == nil {
		noRegistry(w)
		return nil
	}
	if r.URL.Path == "/v2/" {
		if err := f.kit.Guard.AllowLogin(r); err != nil {
			return err
		}
	}
	grant, err := f.kit.Guard.AllowAll(r, distributionRights(f.o.Layout, r))
	if err != nil {
		return err
	}
	if isForm(r) {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "a registry takes no forms: send the bytes as application/octet-stream"}
	}
	if err := f.kit.OpenBody(r); err != nil {
		return err
	}
	rec := &service.Recorder{ResponseWriter: w}
	f.o.Embedded.ServeHTTP(rec, r)
	if s := rec.Status(); r.Method == http.MethodPut && s == http.StatusCreated || r.Method == http.MethodDelete && s == http.StatusAccepted {
		f.changed(r)
	}
	f.recordPush(grant, r, rec)
	return nil
}

// distributionRights are what a request of the distribution API needs: one to
// the repository in its path, and one to each that it mounts a blob from. They
// follow from method, path and query alone.
func distributionRights(l addr.Layout, r *http.Request) []access.Right {
	if r.URL.Path == "/v2/" {
		return nil // it says only that there is a registry
	}
	action := access.Publish
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = access.Read
	}
	var rights []access.Right
	for _, from := range r.URL.Query()["from"] {
		if from != "" {
			rights = append(rights, access.RightTo(l, access.Read, from))
		}
	}
	return append(rights, access.RightTo(l, action, embedded.RepositoryOf(r.URL.Path)))
}

// isForm reports whether a library that asks for a value of the form would take
// it from the body. It reads the type as they do, malformed parameters included.
func isForm(r *http.Request) bool {
	for _, header := range r.Header.Values("Content-Type") {
		t, _, _ := mime.ParseMediaType(header)
		if t == "application/x-www-form-urlencoded" || strings.HasPrefix(t, "multipart/") {
			return true
		}
	}
	return false
}

// changed makes the front-end know at once of what was written to the embedded
// registry or deleted there. A version is listed in the catalog as well: who
// pushed it need not have a right to that.
func (f *Front) changed(r *http.Request) {
	repository, c := embedded.RepositoryOf(r.URL.Path), f.Protocols.Catalog()
	reference, ok := strings.CutPrefix(r.URL.Path, "/v2/"+repository+"/manifests/")
	if ok && repository == f.o.Layout.CatalogRepo() {
		c.ChangedPublished()
	}
	it, parsed := f.o.Layout.Parse(repository)
	if !ok || !parsed || !it.Versioned() {
		return
	}
	c.Changed(repository, reference)
	if _, version := addr.VersionFromTag(reference); !version || r.Method != http.MethodPut {
		return
	}
	if err := f.depot.AddToCatalog(context.WithoutCancel(r.Context()), it); err != nil {
		f.o.Logger.Warn("a version was pushed and is not listed in the catalog", "repository", repository, "tag", reference, "error", err)
		return
	}
	c.ChangedPublished()
}
