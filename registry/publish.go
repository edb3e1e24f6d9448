// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// maxModuleUpload bounds a module's archive uploaded over HTTP, in bytes, like the tree in it.
const maxModuleUpload = 512 << 20

// maxUnpacked bounds the modules received at a time. Each takes at most twice maxModuleUpload of
// the disk, for its archive and its tree.
const maxUnpacked = 8

type publishedDoc struct {
	Repository    string   `json:"repository"`
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest"`
	ContentDigest string   `json:"content_digest"`
	Warnings      []string `json:"warnings,omitempty"`
}

type publishing struct {
	layout  addr.Layout
	kit     *service.Kit
	unpack  *service.ClientLimiter // of the modules that are received
	keys    *keyring.Ring          // signs receipts
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
}

// publishModule stores the tree in a zip or tar.gz as a version, like `okara publish module`.
func (p *publishing) publishModule(w http.ResponseWriter, r call[addr.ModuleVersion]) error {
	o, dry, err := moduleOptions(r.Request, r.grant)
	if err != nil {
		return unprocessableError(err)
	}
	release, ok := p.unpack.Wait(r.Context(), p.kit.Client(r.Request), 1)
	if !ok {
		return r.Context().Err()
	}
	defer release()
	dir, remove, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer p.removeUnpacked(remove)
	if err := receiveTree(r.Request, dir); err != nil {
		return err
	}
	tree, err := os.OpenRoot(dir) // which no link leaves
	if err != nil {
		return err
	}
	defer tree.Close()
	if dry {
		return p.dryRun(w, r, tree.FS(), o)
	}
	out, err := r.depot.PublishModule(r.Context(), tree.FS(), r.at, o)
	p.recordPublished(r.view, r.grant, r.at.Module.String(), access.Change{Action: rights.Publish, Version: r.at.Version.String()}, out, err)
	if err != nil {
		return publishError(err)
	}
	r.catalog.AddedVersion(p.layout.Module(r.at.Module), out.Tag)
	return p.sendPublished(w, r.Request, out)
}

// moduleOptions parses a publication's query. A misspelt value is an error, lest dry_run publish.
func moduleOptions(r *http.Request, g access.Grant) (o depot.ModuleOptions, dry bool, err error) {
	q := r.URL.Query()
	if o.Policy, err = depot.ParsePolicy(cmp.Or(q.Get("policy"), string(depot.PolicyImmutable))); err != nil {
		return o, false, err
	}
	if o.Dir = q.Get("dir"); o.Dir != "" && !fs.ValidPath(o.Dir) {
		return o, false, fmt.Errorf("dir %q is not a directory in the archive", o.Dir)
	}
	for name, value := range map[string]*bool{"dry_run": &dry, "packed": &o.Packed, "no_latest": &o.NoLatest, "allow_invalid": &o.AllowInvalid} {
		if q.Get(name) == "" {
			continue
		}
		if *value, err = strconv.ParseBool(q.Get(name)); err != nil {
			return o, false, fmt.Errorf("%s=%q: must be true or false", name, q.Get(name))
		}
	}
	if o.Annotations, err = originAnnotations(r, g); err == nil {
		o.Annotations[artifact.AnnTitle] = writtenIn(r).String()
	}
	return o, dry, err
}

// removeUnpacked removes a temporary directory; too late for an answer, a failure is only logged.
func (p *publishing) removeUnpacked(remove func() error) {
	if err := remove(); err != nil {
		p.log.Error("temporary files could not be removed", "error", err)
	}
}

func receiveTree(r *http.Request, dir string) error {
	body, done, err := files.TempFile("")
	if err != nil {
		return err
	}
	defer done()
	size, sum, err := receiveBody(r, body, maxModuleUpload)
	if err != nil {
		return err
	}
	if err := checkContentDigest(r.Header.Get("Content-Digest"), sum); err != nil {
		return err
	}
	if err := archive.UnpackForeign(r.Context(), body, size, "", dir, archive.Limits{}); err != nil {
		return publishError(err)
	}
	return nil
}

// receiveBody copies a body of at most limit bytes and returns its size and hash.
func receiveBody(r *http.Request, to io.Writer, limit int64) (int64, [sha256.Size]byte, error) {
	tooLarge := &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("more than %d bytes", limit)}
	if r.ContentLength > limit { // a client that waits for 100 Continue then sends nothing
		return 0, [sha256.Size]byte{}, tooLarge
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(r.Body, limit+1))
	if _, disk := errors.AsType[*fs.PathError](err); disk {
		return n, [sha256.Size]byte{}, fmt.Errorf("store the upload: %w", err)
	}
	if err != nil {
		return n, [sha256.Size]byte{}, &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the upload ended early after %d bytes", n)}
	}
	if n > limit {
		return n, [sha256.Size]byte{}, tooLarge
	}
	return n, [sha256.Size]byte(h.Sum(nil)), nil
}

// checkContentDigest compares a Content-Digest header (RFC 9530) with the body.
func checkContentDigest(header string, sum [sha256.Size]byte) error {
	for item := range strings.SplitSeq(header, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(item), "sha-256=")
		if ok && value != ":"+base64.StdEncoding.EncodeToString(sum[:])+":" {
			return &service.Error{Status: http.StatusBadRequest, Text: "the body does not match its Content-Digest"}
		}
	}
	return nil
}

// originAnnotations returns the annotations on where an artifact comes from. The query counts only
// without a token of a CI system; no token says when the source was written.
func originAnnotations(r *http.Request, g access.Grant) (map[string]string, error) {
	q := r.URL.Query()
	a := map[string]string{}
	for key, name := range map[string]string{artifact.AnnSource: "source", artifact.AnnRevision: "revision", artifact.AnnSourceRef: "ref"} {
		if v := g.Origin[name]; v != "" {
			a[key] = v
		} else if v := q.Get(name); v != "" && len(g.Origin) == 0 {
			a[key] = v
		}
	}
	if v := q.Get("created"); v != "" {
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return nil, fmt.Errorf("created %q is not a time such as 2006-01-02T15:04:05Z", v)
		}
		a[artifact.AnnCreated] = v
	}
	if v := q.Get("changes"); v != "" {
		if len(v) > artifact.MaxChanges {
			return nil, fmt.Errorf("changes has %d bytes, and at most %d are kept", len(v), artifact.MaxChanges)
		}
		a[artifact.AnnChanges] = text.Block(v)
	}
	return a, nil
}

// dryRun answers with what would be published and is there, or the refusal of a publication.
func (p *publishing) dryRun(w http.ResponseWriter, r call[addr.ModuleVersion], tree fs.FS, o depot.ModuleOptions) error {
	plan, err := depot.PlanModule(r.Context(), tree, r.at, o)
	if err != nil {
		return publishError(err)
	}
	existing, err := r.depot.ModuleThere(r.Context(), r.at, plan, o)
	if err != nil {
		return publishError(err)
	}
	type file struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	}
	doc := struct {
		Outcome  string   `json:"outcome"` // new or same
		Files    []file   `json:"files"`
		Warnings []string `json:"warnings,omitempty"`
	}{Outcome: "new", Files: make([]file, 0, len(plan.Tree.Files)), Warnings: plan.Warnings}
	if existing {
		doc.Outcome = "same"
	}
	for _, f := range plan.Tree.Files {
		doc.Files = append(doc.Files, file{f.Path, f.Size})
	}
	return writeDocument(w, http.StatusOK, doc)
}

func (p *publishing) sendPublished(w http.ResponseWriter, r *http.Request, out depot.Published) error {
	status := http.StatusCreated
	if out.Existing {
		status = http.StatusOK
	}
	return writeDocument(w, status, publishedDoc{
		Repository: httpserve.NameRegistry(r, out.Repository), Tag: out.Tag, Digest: out.Digest, ContentDigest: out.ContentDigest, Warnings: out.Warnings,
	})
}

// recordPublished records a change at an address. err is the error of the change.
func (p *publishing) recordPublished(v *view, g access.Grant, address string, c access.Change, out depot.Published, err error) {
	result := "done"
	c.Digest = out.Digest
	c.Status = http.StatusCreated
	if err != nil {
		c.Status, _ = classifyError(v.reportedError(publishError(err)))
		result = http.StatusText(c.Status)
	}
	if c.Action == rights.Publish {
		p.metrics.publish.WithLabelValues(string(g.Kind()), result).Inc()
	}
	c.Found = out.Existing && err == nil && !out.Restored
	if out.Restored {
		c.Detail = "lost parts restored"
	}
	g.Record(address, c)
}

// writeDocument sends the answer to a change, which must not be cached.
func writeDocument(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Cache-Control", "no-store")
	return service.WriteJSON(w, status, v)
}

func unprocessableError(err error) error {
	return &service.Error{Status: http.StatusUnprocessableEntity, Text: err.Error()}
}

// publishError keeps errors of the registry and of a full disk; others are the content's fault.
func publishError(err error) error {
	for _, e := range []error{
		oci.ErrExists, oci.ErrUnavailable, oci.ErrUnauthenticated, oci.ErrDenied, oci.ErrRateLimited, oci.ErrUncertain,
		oci.ErrUnsupported, oci.ErrTooLarge, context.DeadlineExceeded, context.Canceled, syscall.ENOSPC,
	} {
		if errors.Is(err, e) {
			return err
		}
	}
	if errors.Is(err, archive.ErrTooLarge) {
		return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: err.Error()}
	}
	return unprocessableError(err)
}

// Bounds of a status change.
const (
	maxStatusRequest = 16 << 10
	maxMessage       = 300
	maxActor         = 128
)

// changeStatus deprecates or withdraws a version, or reverts that. Resigning takes `okara sign`.
func (p *publishing) changeStatus(w http.ResponseWriter, r call[stored]) error {
	var in struct {
		Action      string `json:"action"`
		Message     string `json:"message"`
		Replacement string `json:"replacement"`
	}
	if err := readJSON(r.Request, maxStatusRequest, &in); err != nil {
		return err
	}
	if !slices.Contains([]string{evidence.ActionDeprecate, evidence.ActionUndeprecate, evidence.ActionYank, evidence.ActionUnyank}, in.Action) {
		return unprocessableError(fmt.Errorf("action %q: must be deprecate, undeprecate, yank or unyank", in.Action))
	}
	if len(in.Message) > maxMessage || len(in.Replacement) > maxMessage {
		return unprocessableError(fmt.Errorf("message or replacement exceeds %d bytes", maxMessage))
	}
	v := r.at.version
	e, warnings, err := r.depot.Announce(r.Context(), r.at.Item, depot.Announcement{
		Action: in.Action, Version: v.String(), Message: in.Message, Replacement: in.Replacement, Actor: text.Clip(r.grant.Subject, maxActor),
		Visible: func(it addr.Item) bool {
			return r.grant.May(rights.Right{Action: rights.Read, Kind: rights.Kind(it.Kind), Address: it.String()})
		},
	})
	if errors.Is(err, oci.ErrNotFound) {
		return orNotFound(err, "%s %s %s", r.at.Kind, r.at, v)
	}
	p.recordPublished(r.view, r.grant, r.at.String(), access.Change{Action: rights.Action(in.Action), Version: v.String(), Detail: in.Message}, depot.Published{}, err)
	if err != nil {
		return publishError(err)
	}
	repository := r.at.Repository(p.layout)
	r.catalog.Changed(repository, v.Tag())
	doc := map[string]any{"repository": httpserve.NameRegistry(r.Request, r.client.Host()+"/"+repository), "tag": e.Tag, "action": e.Action}
	if len(warnings) > 0 {
		doc["warnings"] = warnings
	}
	return writeDocument(w, http.StatusCreated, doc)
}
