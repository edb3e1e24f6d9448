// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// S3's own limits: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
const (
	maxParts    = 10_000
	maxComplete = 1 << 20
)

// upload is one multipart upload. Its parts are files, since it may be abandoned.
type upload struct {
	ref    Ref
	dir    string
	remove func() error

	mu    sync.Mutex // guards the fields below
	parts map[int]part
	size  int64
}

type part struct {
	file, etag string
	size       int64
}

type uploads struct {
	o     Options
	write func(ctx context.Context, p Ref, state []byte) error // writes a complete state

	mu   sync.Mutex // guards open
	open map[string]*upload
}

func (all *uploads) close() error {
	all.mu.Lock()
	defer all.mu.Unlock()
	var err error
	for id, u := range all.open {
		err = errors.Join(err, u.remove())
		delete(all.open, id)
	}
	return err
}

func (all *uploads) serve(w http.ResponseWriter, r *http.Request, p Ref) error {
	q := r.URL.Query()
	if r.Method == http.MethodPost && q.Has("uploads") {
		return all.create(w, p)
	}
	id := q.Get("uploadId")
	all.mu.Lock()
	u := all.open[id]
	all.mu.Unlock()
	if u == nil || u.ref != p {
		return &s3Error{http.StatusNotFound, "NoSuchUpload", "the upload was completed, aborted or never started"}
	}
	switch r.Method {
	case http.MethodPut:
		return all.storePart(w, r, u, q.Get("partNumber"))
	case http.MethodPost:
		return all.complete(w, r, id, u)
	case http.MethodDelete:
		if err := all.drop(id, u); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errMethod(r)
}

type createResult struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ InitiateMultipartUploadResult"`
	Bucket, Key, UploadId string
}

func (all *uploads) create(w http.ResponseWriter, p Ref) error {
	dir, remove, err := files.TempDir(all.o.TempDir)
	if err != nil {
		return fmt.Errorf("starting an upload: %w", err)
	}
	id := rand.Text()
	all.mu.Lock()
	all.open[id] = &upload{ref: p, dir: dir, remove: remove, parts: make(map[int]part)}
	all.mu.Unlock()
	writeXML(w, http.StatusOK, createResult{Bucket: Bucket, Key: p.objectKey(), UploadId: id})
	return nil
}

// drop removes an upload; only one caller succeeds.
func (all *uploads) drop(id string, u *upload) error {
	all.mu.Lock()
	delete(all.open, id)
	all.mu.Unlock()
	return u.remove()
}

// storePart stores one part. One sent again replaces the earlier one, as in S3.
func (all *uploads) storePart(w http.ResponseWriter, r *http.Request, u *upload, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxParts {
		return &s3Error{http.StatusBadRequest, "InvalidArgument", fmt.Sprintf("part number %q is not between 1 and %d", number, maxParts)}
	}
	file, err := os.CreateTemp(u.dir, "part-")
	if err != nil {
		return fmt.Errorf("storing part %d: %w", n, err)
	}
	size, err := copyBody(file, r, all.o.MaxState)
	if err = errors.Join(err, file.Close()); err == nil {
		err = u.keepPart(n, part{file: file.Name(), size: size, etag: `"` + rand.Text() + `"`}, all.o.MaxState)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	w.Header().Set("ETag", u.part(n).etag)
	return nil
}

func (u *upload) part(n int) part {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.parts[n]
}

func (u *upload) keepPart(n int, p part, limit int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	old, again := u.parts[n]
	if u.size+p.size-old.size > limit {
		return fmt.Errorf("a state of more than %d bytes: %w", limit, oci.ErrTooLarge)
	}
	u.parts[n] = p
	u.size += p.size - old.size
	if again {
		return os.Remove(old.file)
	}
	return nil
}

type completeRequest struct {
	Part []struct {
		PartNumber int
		ETag       string
	}
}

type completeResult struct {
	XMLName                     xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUploadResult"`
	Location, Bucket, Key, ETag string
}

// complete joins the parts by number and writes the state. If that fails the upload stays.
func (all *uploads) complete(w http.ResponseWriter, r *http.Request, id string, u *upload) error {
	body, err := readBody(r, maxComplete)
	if err != nil {
		return err
	}
	var req completeRequest
	if err := xml.Unmarshal(body, &req); err != nil || len(req.Part) == 0 {
		return &s3Error{http.StatusBadRequest, "MalformedXML", "the list of parts cannot be read"}
	}
	data, err := u.assemble(req)
	if err != nil {
		return err
	}
	if err := all.write(r.Context(), u.ref, data); err != nil {
		return err
	}
	if err := all.drop(id, u); err != nil {
		all.o.Logger.WarnContext(r.Context(), "removing the parts of an upload", "error", err)
	}
	writeXML(w, http.StatusOK, completeResult{Location: r.URL.Path, Bucket: Bucket, Key: u.ref.objectKey(), ETag: etag(data)})
	return nil
}

func (u *upload) assemble(req completeRequest) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var data bytes.Buffer
	data.Grow(int(u.size))
	last := 0
	for _, want := range req.Part {
		p, ok := u.parts[want.PartNumber]
		if !ok || p.etag != want.ETag {
			return nil, &s3Error{http.StatusBadRequest, "InvalidPart", fmt.Sprintf("part %d is missing or was replaced", want.PartNumber)}
		}
		if want.PartNumber <= last {
			return nil, &s3Error{http.StatusBadRequest, "InvalidPartOrder", "the parts are not in ascending order"}
		}
		last = want.PartNumber
		b, err := os.ReadFile(p.file)
		if err != nil {
			return nil, fmt.Errorf("reading part %d: %w", want.PartNumber, err)
		}
		data.Write(b)
	}
	return data.Bytes(), nil
}
