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
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// noRegistry answers clients that mistake this server for the registry that it stores in.
// A 404 without a code would mean that a repository does not exist.
func noRegistry(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNSUPPORTED","message":"this server stores in another registry: name that one"}]}`) // an error means that the client is gone
}

// distribution passes an authorised request to the embedded registry. Method, path and
// query decide. A registry that reads forms in the body first could get other values from
// there, so forms are refused.
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
	if isForm(r) {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "a registry takes no forms: send the bytes as application/octet-stream"}
	}
	if err := f.kit.OpenBody(r); err != nil {
		return err
	}
	rec := httpserve.NewResponse(w)
	f.o.Embedded.ServeHTTP(rec, r)
	if s := rec.Status(); r.Method == http.MethodPut && s == http.StatusCreated || r.Method == http.MethodDelete && s == http.StatusAccepted {
		f.changed(r)
	}
	f.recordPush(grant, r, rec)
	return nil
}

// listRepositories answers GET /v2/_catalog with the repositories that the caller may read,
// in pages as the distribution specification has them.
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
	if n, err := strconv.Atoi(q.Get("n")); err == nil && 0 < n && n < len(all) {
		all = all[:n]
		next := url.Values{"n": {q.Get("n")}, "last": {all[n-1]}}
		w.Header().Set("Link", "</v2/_catalog?"+next.Encode()+`>; rel="next"`)
	}
	return service.WriteJSON(w, http.StatusOK, map[string][]string{"repositories": append([]string{}, all...)})
}

// distributionRights returns the rights that a request of the distribution API needs: one
// to the repository in its path, and one to each repository that it mounts a blob from.
// They follow from method, path and query alone.
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

// isForm reports whether a library that reads a form value would take it from the body.
// It reads the content type as such libraries do, malformed parameters included.
func isForm(r *http.Request) bool {
	for _, header := range r.Header.Values("Content-Type") {
		t, _, _ := mime.ParseMediaType(header)
		if t == "application/x-www-form-urlencoded" || strings.HasPrefix(t, "multipart/") {
			return true
		}
	}
	return false
}

// changed updates the caches of the front-end at once after a write to the embedded
// registry or a deletion there. A version is added to the catalog as well: the client
// that pushed it may have no right to write the catalog.
func (f *Front) changed(r *http.Request) {
	repository := embedded.RepositoryOf(r.URL.Path)
	c := f.Protocols.Catalog()
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

// recordState records the changes of a request to the http backend, or that it was
// refused, or that it failed, in which case it may have made changes before.
func recordState(g access.Grant, r *http.Request, made []httpbackend.Change, status int) {
	if access.Outcome(status) != access.Done && len(made) == 0 {
		made = []httpbackend.Change{{Action: stateAction(r.Method), Lock: r.URL.Query().Get("ID")}}
	}
	for _, m := range made {
		c := access.Change{Action: rights.Action(m.Action), Status: status}
		if m.Version > 0 {
			c.Version = strconv.FormatInt(m.Version, 10)
		}
		if m.Lock != "" {
			c.Detail = "lock " + m.Lock
		}
		g.Record(g.Address(), c)
	}
}

func stateAction(method string) string {
	switch method {
	case http.MethodPost, http.MethodPut:
		return "write"
	default:
		return strings.ToLower(method)
	}
}

// recordPush records the change that a request made in the embedded registry: a manifest
// that was put under a tag or attached to another one, or a deletion. A blob alone, or a
// manifest that only other manifests refer to, is not recorded: users do not see it.
func (f *Front) recordPush(g access.Grant, r *http.Request, rec *httpserve.Response) {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete {
		return
	}
	repository := embedded.RepositoryOf(r.URL.Path)
	what, reference, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"+repository+"/"), "/")
	deletedBlob := what == "blobs" && r.Method == http.MethodDelete && !strings.HasPrefix(reference, "uploads/")
	if !ok || what != "manifests" && !deletedBlob {
		return
	}
	address, c := pushed(f.o.Layout, repository, reference, r.Method, rec.Header().Get("OCI-Subject"))
	if c.Action == "" {
		return
	}
	if address == "" {
		address = g.Address()
	}
	c.Status = rec.Status()
	if c.Digest == "" && access.Outcome(c.Status) == access.Done {
		c.Digest = rec.Header().Get("Docker-Content-Digest")
	}
	if c.Action == changesStatus && access.Outcome(c.Status) == access.Done {
		f.readStatus(r, repository, reference, &c)
	}
	g.Record(address, c)
}

// changesStatus is a change of a version's status, such as a yank.
const changesStatus rights.Action = "status"

// readStatus copies action, version and message of a status event to the change. If the
// event cannot be read or is invalid, the change stays as it is.
func (f *Front) readStatus(r *http.Request, repository, tag string, c *access.Change) {
	repo, err := f.o.Client.Repo(repository)
	if err != nil {
		return
	}
	m, err := repo.Fetch(r.Context(), tag)
	if err != nil {
		return
	}
	if e, err := evidence.ParseStatusEvent(tag, m); err == nil {
		c.Action = rights.Action(e.Action)
		c.Version = e.Version
		c.Detail = e.Message
	}
}

// pushed returns the change that the request makes, judged by the layout and the tag
// alone. The address is "" if that of the right applies. An empty action means that the
// request is not recorded.
func pushed(l addr.Layout, repository, reference, method, subject string) (address string, c access.Change) {
	put := method == http.MethodPut
	if strings.Contains(reference, ":") { // the reference is a digest
		switch {
		case !put:
			return otherAddress(l, repository), access.Change{Action: "delete", Digest: reference}
		case subject != "":
			return otherAddress(l, repository), access.Change{Action: "attach", Digest: reference, Detail: "to " + subject}
		}
		return "", access.Change{}
	}
	it, known := l.Parse(repository)
	switch {
	case known && it.Kind == addr.KindState:
		return pushedState(l, it.State, reference, put)
	case known && it.Versioned():
		return "", pushedVersion(reference, put)
	}
	c = access.Change{Action: "push", Detail: "tag " + reference}
	if !put {
		c.Action = "delete"
	}
	return otherAddress(l, repository), c
}

// otherAddress returns the repository if its kind has no address, else "".
func otherAddress(l addr.Layout, repository string) string {
	if it, known := l.Parse(repository); known && (it.Versioned() || it.Kind == addr.KindState) {
		return ""
	}
	return repository
}

func pushedVersion(tag string, put bool) access.Change {
	v, version := addr.VersionFromTag(tag)
	switch {
	case version && put:
		return access.Change{Action: rights.Publish, Version: v.String()}
	case version:
		return access.Change{Action: "delete", Version: v.String()}
	case evidence.IsStatusTag(tag) && put:
		return access.Change{Action: changesStatus, Detail: "tag " + tag}
	case put:
		return access.Change{Action: "push", Detail: "tag " + tag}
	}
	return access.Change{Action: "delete", Detail: "tag " + tag}
}

// pushedState reports versions, and locks that were ended by force. Taking, keeping and
// releasing a lock is not reported: each heartbeat of a lease moves its tags.
func pushedState(l addr.Layout, state, tag string, put bool) (address string, c access.Change) {
	t, ok := format.ParseStateTag(tag)
	if !ok {
		c = access.Change{Action: "push", Detail: "tag " + tag}
		if !put {
			c.Action = "delete"
		}
		return "", c
	}
	address = rights.StateRight(l, rights.Write, state, t.Fragment).Address
	switch {
	case t.Kind == format.StateNumbered && put:
		c = access.Change{Action: rights.Write, Version: strconv.FormatInt(t.N, 10)}
	case t.Kind == format.StateNumbered:
		c = access.Change{Action: "delete", Version: strconv.FormatInt(t.N, 10)}
	case t.Kind == format.ForceTombstone && put:
		c = access.Change{Action: "force-unlock", Detail: "claim " + t.X}
	}
	return address, c
}
