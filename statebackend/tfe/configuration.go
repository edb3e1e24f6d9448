// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	// configurationTime is how long the address of an upload is valid.
	configurationTime = 10 * time.Minute
	// configurationAge is the age at which an upload that no run waits for is deleted.
	configurationAge = 24 * time.Hour
	// maxUnused bounds the uploads of a workspace that no run uses.
	maxUnused = 20
	// maxCleaned bounds how many old uploads one request deletes.
	maxCleaned = 8
	// uploadTime bounds the processing of an upload that has arrived.
	uploadTime = 5 * time.Minute
)

// runsHere reports whether a workspace's runs are executed here; if r was not settled, maybe.
func (s *books) runsHere(r *statebackend.Record) bool {
	return s.runs != nil && r != nil && r.Mode == modeRemote
}

func (s *books) openRemote(ctx context.Context, p workspaceRef) (located, error) {
	at, err := s.stores.openWorkspace(ctx, p)
	if err == nil {
		err = s.settleRemote(ctx, &at)
	}
	if err != nil {
		return located{}, err
	}
	if !s.runsHere(at.liveRecord()) {
		return located{}, conflictError("workspace runs nothing here", "workspace %q has execution mode local: its runs are executed where the tool is started\nhint: set its execution mode to remote", p)
	}
	return at, nil
}

func (p workspaceRef) asWorkspace() Workspace { return Workspace{p.organization, p.workspace} }

type configurationAttributes struct {
	Status      string `json:"status"`
	Error       string `json:"error,omitempty"`
	Message     string `json:"error-message,omitempty"`
	Source      string `json:"source"`
	AutoQueue   bool   `json:"auto-queue-runs"`
	Speculative bool   `json:"speculative"`
	Provisional bool   `json:"provisional"`
	Upload      string `json:"upload-url,omitempty"`
}

const (
	configurationKind = "configuration-versions"
	statusUploaded    = "uploaded"
	statusErrored     = "errored"
)

func (c configurationID) asResource(a configurationAttributes) resource {
	a.Source = "tfe-api"
	a.Speculative = c.isSpeculative()
	a.Provisional = c.isProvisional()
	return resource{Type: configurationKind, ID: c.String(), Attributes: a}
}

type configurations struct {
	gate    *gate
	books   *books
	signer  signer
	spooled *service.Limiter[string] // on disk: of received configurations
}

func (s configurations) addRoutes(t table) {
	t.onWorkspace("POST", "workspaces/{id}/configuration-versions", rights.Run, s.createConfiguration)
	t.addRoute("GET", "configuration-versions/{id}", s.showConfiguration)
}

// createConfiguration answers with the address for an upload. It stores nothing.
func (s configurations) createConfiguration(w http.ResponseWriter, r *http.Request, p workspaceRef, _ commandID, g access.Grant) error {
	var body struct {
		Data struct {
			Attributes struct{ Speculative, Provisional bool }
		}
	}
	if err := s.gate.readBody(w, r, smallBody, &body); err != nil {
		return err
	}
	if s.signer.publicURL(r) == "" {
		return invalidError("this server does not know its public URL, which is required to upload a configuration\nhint: set public_url")
	}
	if _, err := s.books.openRemote(r.Context(), p); err != nil {
		return err
	}
	record, err := s.books.runs.Open(r.Context(), p.asWorkspace(), g.Caller)
	if err != nil {
		return runError(err)
	}
	a := body.Data.Attributes
	c := newConfigurationID(p, record, s.gate.now(), a.Speculative, a.Provisional)
	if err := s.mayStore(r.Context(), c); err != nil {
		return err
	}
	t := signedUpload{Kind: signedConfiguration, Workspace: c.String()}
	token, err := s.signer.issue(t, g.Caller, configurationTime)
	if err != nil {
		return err
	}
	d := c.asResource(configurationAttributes{Status: statusPending, Upload: s.signer.address(r, "uploads/"+token)})
	return sendDocument(w, http.StatusCreated, document{Data: d})
}

// uploadsOf lists a configuration's uploads, valid only if it is one, and all of its workspace.
func (s configurations) uploadsOf(ctx context.Context, c configurationID) (repo *oci.Repo, its, all []format.ConfigurationTag, err error) {
	if repo, err = s.books.runs.Repository(c.asWorkspace(), c.record); err != nil {
		return nil, nil, nil, err
	}
	if all, err = format.Configurations(ctx, repo, c.record); err != nil {
		return nil, nil, nil, err
	}
	for _, t := range all {
		if t.ID == c.hex {
			its = append(its, t)
		}
	}
	return repo, its, all, nil
}

// mayStore refuses an upload if too many unused ones are stored, and deletes some old ones.
func (s configurations) mayStore(ctx context.Context, c configurationID) error {
	repo, _, all, err := s.uploadsOf(ctx, c)
	if err != nil {
		return err
	}
	view, err := s.books.runs.View(ctx, c.asWorkspace())
	if err != nil {
		return runError(err)
	}
	used := map[string]bool{} // by a run; true: a run that has not ended
	for _, run := range view.Runs {
		used[run.Configuration] = used[run.Configuration] || !run.Status.isFinal()
	}
	unused := 0
	cleaned := 0
	for _, t := range all {
		waits, known := used[t.ID]
		if timeOfUpload(t.ID).Before(s.gate.now().Add(-configurationAge)) {
			if !waits && cleaned < maxCleaned {
				cleaned++
				_ = repo.Delete(ctx, oci.Descriptor{Digest: t.Manifest}) // if the registry can; otherwise it is tried again later
			}
			continue
		}
		if !known && t.ID != c.hex {
			unused++
		}
	}
	if unused >= maxUnused {
		return conflictError("too many configuration versions", "workspace %q has %d unused uploads; each is deleted after a day", c.workspaceRef, unused)
	}
	return nil
}

func (s configurations) showConfiguration(w http.ResponseWriter, r *http.Request) error {
	c, err := parseConfigurationID(r.PathValue("id"))
	if err != nil {
		return err
	}
	if _, err := s.gate.allowRef(r, rights.Read, c.workspaceRef); err != nil {
		return err
	}
	_, its, _, err := s.uploadsOf(r.Context(), c)
	if err != nil {
		return err
	}
	a := configurationAttributes{Status: statusPending}
	switch {
	case len(its) == 1:
		a.Status = statusUploaded
	case len(its) > 1:
		a = configurationAttributes{Status: statusErrored, Error: "uploaded twice", Message: errTwice(c).Error()}
	case s.gate.now().After(c.createdAt().Add(configurationAge)):
		return errAbsent("configuration version %s no longer exists", c)
	}
	return sendDocument(w, http.StatusOK, document{Data: c.asResource(a)})
}

func errTwice(c configurationID) error {
	return conflictError("already uploaded", "configuration version %s was uploaded more than once: run the command again", c)
}

// storeConfiguration accepts an upload once; a repeated request must have the same bytes.
func (s configurations) storeConfiguration(w http.ResponseWriter, r *http.Request, t signedUpload) error {
	c, err := parseConfigurationID(t.Workspace)
	if err != nil || s.books.runs == nil {
		return errUploadURL()
	}
	if r.ContentLength > format.MaxConfiguration {
		return configurationTooLarge()
	}
	size := r.ContentLength
	if size < 0 {
		size = format.MaxConfiguration
	}
	release, err := reserveMemory(s.spooled, t.Caller(), size)
	if err != nil {
		return err
	}
	defer release()
	_, err = s.gate.kit.Guard.Proven(r, t.Proof, s.gate.right(rights.Run, c.organization, c.workspace), "upload address")
	if err != nil {
		return err
	}
	f, done, err := files.TempFile("")
	if err != nil {
		return err
	}
	defer done()
	layer, err := s.spool(w, r, f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), uploadTime)
	defer cancel()
	if err := s.mayStore(ctx, c); err != nil {
		return err
	}
	repo, err := s.books.runs.Repository(c.asWorkspace(), c.record)
	if err != nil {
		return err
	}
	_, err = format.PutConfiguration(ctx, repo, c.record, c.hex, layer)
	if errors.Is(err, oci.ErrExists) {
		return errTwice(c)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func configurationTooLarge() error {
	return newRefusal(http.StatusRequestEntityTooLarge, "too large", "the configuration exceeds %s; exclude unneeded files with .terraformignore", text.Size(format.MaxConfiguration))
}

// spool writes the body to a file while it checks whether it can be unpacked.
func (s configurations) spool(w http.ResponseWriter, r *http.Request, f *os.File) (oci.Blob, error) {
	if err := s.gate.kit.OpenBody(r); err != nil {
		return oci.Blob{}, err
	}
	sum := digest.SHA256.Digester()
	body := io.TeeReader(http.MaxBytesReader(w, r.Body, format.MaxConfiguration), io.MultiWriter(f, sum.Hash()))
	err := archive.CheckUpload(r.Context(), body, archive.Limits{})
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return oci.Blob{}, configurationTooLarge()
	case errors.Is(err, archive.ErrUnsafe), errors.Is(err, archive.ErrTooLarge):
		return oci.Blob{}, invalidError("the configuration: %w", err)
	case err != nil:
		return oci.Blob{}, malformedError("the upload of the configuration is incomplete: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return oci.Blob{}, fmt.Errorf("spooled configuration: %w", err)
	}
	return oci.Blob{
		Descriptor: oci.Descriptor{MediaType: format.MediaConfiguration, Digest: sum.Digest(), Size: size},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, size)), nil },
	}, nil
}
