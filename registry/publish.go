// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// maxModuleUpload bounds the archive of a module that is sent over HTTP.
const maxModuleUpload = 64 << 20

// publishedDoc is the answer to a publication.
type publishedDoc struct {
	Repository    string   `json:"repository"`
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest"`
	ContentDigest string   `json:"content_digest"`
	Warnings      []string `json:"warnings,omitempty"`
}

// publishModule takes a zip or tar.gz and stores its tree as a version, with
// the same ignore files, checks and bytes as `okara publish module`.
func (s *server) publishModule(w http.ResponseWriter, r *http.Request) error {
	m := addr.Module{Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), System: r.PathValue("system")}
	g, err := s.allow(r, "publish", "module", m.String())
	if err != nil {
		return err
	}
	if err := m.Validate(); err != nil {
		return unprocessable(err)
	}
	v, err := addr.ParseVersion(r.PathValue("version"))
	if err != nil {
		return unprocessable(err)
	}
	dir, err := os.MkdirTemp("", "okara-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := receiveTree(r, dir); err != nil {
		return err
	}
	version := addr.ModuleVersion{Module: m, Version: v}
	o := depot.ModuleOptions{Annotations: origin(r, g)}
	if dry, _ := strconv.ParseBool(r.URL.Query().Get("dry_run")); dry {
		return s.dryRun(r.Context(), w, dir, version, o)
	}
	out, err := s.depot.PublishModule(r.Context(), os.DirFS(dir), version, o)
	s.published(r, g.caller, "publish", "module", m.String(), v.String(), out.Digest, err)
	if err != nil {
		return publishError(err)
	}
	s.store.changed(s.o.Layout.Module(m), out.Tag)
	s.store.catalogs.forget(s.o.Layout.CatalogRepo())
	return writePublished(w, out)
}

// receiveTree unpacks the body of a request into dir.
func receiveTree(r *http.Request, dir string) error {
	body, err := os.CreateTemp("", "okara-upload-")
	if err != nil {
		return err
	}
	defer os.Remove(body.Name())
	defer body.Close()
	size, sum, err := receive(r, body, maxModuleUpload)
	if err != nil {
		return err
	}
	if err := checkContentDigest(r.Header.Get("Content-Digest"), sum); err != nil {
		return err
	}
	if err := archive.Unpack(r.Context(), body, size, dir, archive.Limits{}); err != nil {
		return publishError(err)
	}
	return nil
}

// receive copies a body of at most limit bytes and returns its size and hash.
func receive(r *http.Request, to io.Writer, limit int64) (int64, [sha256.Size]byte, error) {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(r.Body, limit+1))
	if err != nil {
		return n, [sha256.Size]byte{}, &httpError{status: http.StatusBadRequest, text: fmt.Sprintf("the upload broke off after %d bytes", n)}
	}
	if n > limit {
		return n, [sha256.Size]byte{}, &httpError{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("more than %d bytes", limit)}
	}
	return n, [sha256.Size]byte(h.Sum(nil)), nil
}

// checkContentDigest holds a Content-Digest header (RFC 9530) against the body.
func checkContentDigest(header string, sum [sha256.Size]byte) error {
	for item := range strings.SplitSeq(header, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(item), "sha-256=")
		if ok && value != ":"+base64.StdEncoding.EncodeToString(sum[:])+":" {
			return &httpError{status: http.StatusBadRequest, text: "the body does not have the announced Content-Digest"}
		}
	}
	return nil
}

// origin are the annotations that tell where a module comes from. What the
// query says counts only where no token of a CI system says it.
func origin(r *http.Request, g grant) map[string]string {
	a := map[string]string{}
	for key, name := range map[string]string{oci.AnnSource: "source", oci.AnnRevision: "revision"} {
		if v := g.caller.origin[name]; v != "" {
			a[key] = v
		} else if v := r.URL.Query().Get(name); v != "" && len(g.caller.origin) == 0 {
			a[key] = v
		}
	}
	return a
}

// dryRun answers what would be shipped.
func (s *server) dryRun(ctx context.Context, w http.ResponseWriter, dir string, m addr.ModuleVersion, o depot.ModuleOptions) error {
	plan, err := depot.PlanModule(ctx, os.DirFS(dir), m, o)
	if err != nil {
		return publishError(err)
	}
	type file struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	}
	doc := struct {
		Files    []file   `json:"files"`
		Warnings []string `json:"warnings,omitempty"`
	}{Files: make([]file, 0, len(plan.Tree.Files)), Warnings: plan.Warnings}
	for _, f := range plan.Tree.Files {
		doc.Files = append(doc.Files, file{f.Path, f.Size})
	}
	return writeDocument(w, http.StatusOK, doc)
}

func writePublished(w http.ResponseWriter, out depot.Published) error {
	status := http.StatusCreated
	if out.Existing {
		status = http.StatusOK
	}
	return writeDocument(w, status, publishedDoc{
		Repository: out.Repository, Tag: out.Tag, Digest: out.Digest, ContentDigest: out.ContentDigest, Warnings: out.Warnings,
	})
}

// writeDocument sends the answer to a change, which nobody may keep.
func writeDocument(w http.ResponseWriter, status int, v any) error {
	a, err := encode(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", a.length)
	w.WriteHeader(status)
	_, _ = w.Write(a.body) // the client is gone; there is nobody to tell
	return nil
}

func unprocessable(err error) error {
	return &httpError{status: http.StatusUnprocessableEntity, text: err.Error()}
}

// publishError keeps the errors of the registry and takes all others for
// something wrong with what was sent.
func publishError(err error) error {
	for _, e := range []error{
		oci.ErrExists, oci.ErrUnavailable, oci.ErrUnauthenticated, oci.ErrDenied, oci.ErrRateLimited, oci.ErrUncertain,
		oci.ErrUnsupported, oci.ErrTooLarge, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, e) {
			return err
		}
	}
	if errors.Is(err, archive.ErrTooLarge) {
		return &httpError{status: http.StatusRequestEntityTooLarge, text: err.Error()}
	}
	return unprocessable(err)
}

// changed forgets what a publication through this process made old.
func (s *store) changed(repository, tag string) {
	s.lists.forget(repository)
	s.modules.forget(repository + ":" + tag)
	s.providers.forget(repository + ":" + tag)
}
