// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const maxKeys = 1000

type listResult struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name, Prefix          string
	KeyCount, MaxKeys     int
	IsTruncated           bool
	EncodingType          string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listEntry
}

// listEntry has no size and time: each would cost a request, and the tools read only the key.
type listEntry struct{ Key, StorageClass string }

// listObjects answers ListObjectsV2. The continuation token is the last key returned.
func (f *Facade) listObjects(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	keys, err := f.keysUnder(r.Context(), q.Get("prefix"))
	if err != nil {
		return err
	}
	limit := maxKeys
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil && n > 0 && n < maxKeys {
		limit = n
	}
	after := max(q.Get("continuation-token"), q.Get("start-after"))
	start, found := slices.BinarySearch(keys, after)
	if found {
		start++
	}
	page := keys[start:min(start+limit, len(keys))]
	res := listResult{Name: Bucket, Prefix: q.Get("prefix"), KeyCount: len(page), MaxKeys: limit}
	if start+limit < len(keys) {
		res.IsTruncated = true
		res.NextContinuationToken = page[len(page)-1]
	}
	encode := func(s string) string { return s }
	if q.Get("encoding-type") == "url" {
		res.EncodingType = "url"
		encode = url.PathEscape
	}
	for _, k := range page {
		res.Contents = append(res.Contents, listEntry{Key: encode(k), StorageClass: "STANDARD"})
	}
	writeXML(w, http.StatusOK, res)
	return nil
}

func (f *Facade) keysUnder(ctx context.Context, prefix string) ([]string, error) {
	if f.o.Taken != nil {
		return nil, nil // the tools always assume the default workspace
	}
	repositories := f.o.Repositories
	remote := strings.HasPrefix(prefix, remotePrefix)
	if remote {
		repositories = []string{strings.TrimSuffix(strings.TrimPrefix(prefix, remotePrefix), "/")}
	}
	var keys []string
	for _, r := range repositories {
		p := Ref{Repository: r, Workspace: defaultWorkspace, Remote: remote}
		names, err := f.workspaces(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, ws := range names {
			p.Workspace = ws
			if k := p.objectKey(); strings.HasPrefix(k, prefix) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// workspaces lists the workspaces of one repository; none if it does not exist yet.
func (f *Facade) workspaces(ctx context.Context, p Ref) ([]string, error) {
	if strings.Contains(p.Repository, statebackend.WorkspaceVariable) {
		return f.probeWorkspaces(ctx, p)
	}
	s, err := f.store(ctx, p)
	if err != nil {
		return nil, err
	}
	var names []string
	for ws, err := range s.Workspaces().All(ctx) {
		if errors.Is(err, oci.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		names = append(names, ws)
	}
	return names, nil
}

func (f *Facade) probeWorkspaces(ctx context.Context, p Ref) ([]string, error) {
	var names []string
	for _, ws := range f.o.Workspaces {
		p.Workspace = ws
		s, err := f.store(ctx, p)
		if err != nil {
			return nil, err
		}
		switch _, _, err := s.Get(ctx, ws); {
		case err == nil:
			names = append(names, ws)
		case !errors.Is(err, oci.ErrNotFound):
			return nil, err
		}
	}
	return names, nil
}
