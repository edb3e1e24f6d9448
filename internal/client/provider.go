// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// parallel is the number of concurrent uploads.
const parallel = 4

// PublishProvider checks the folder, signs SHA256SUMS if it has no signature, and sends
// the files that the server does not have. The method of the same name of a depot does
// the same without a server.
func (c *Client) PublishProvider(ctx context.Context, dist fs.FS, p addr.Provider, v addr.Version, o depot.ProviderOptions) (depot.Published, error) {
	plan, err := depot.PlanProvider(ctx, dist, p, v, o)
	if err != nil {
		return depot.Published{}, fmt.Errorf("publish %s %s: %w", p, v, err)
	}
	out, err := c.publishProvider(ctx, dist, ProviderPath(p)+"/"+v.String(), plan, o)
	if err != nil {
		return depot.Published{}, fmt.Errorf("publish %s %s: %w", p, v, err)
	}
	out.Warnings = append(plan.Warnings, out.Warnings...)
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings)
	return out, nil
}

func (c *Client) publishProvider(ctx context.Context, dist fs.FS, path string, plan *depot.ProviderPlan, o depot.ProviderOptions) (depot.Published, error) {
	files := releaseFiles(dist, plan)
	receipts := make([]string, len(files))
	g, uploads := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, f := range files {
		g.Go(func() (err error) {
			receipts[i], err = c.uploadFile(uploads, path+"/files/"+f.name, f)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return depot.Published{}, err
	}
	order := map[string]any{"receipts": receipts, "keys": plan.Keys(), "extend": o.Extend}
	if len(o.Protocols) > 0 {
		order["protocols"] = o.Protocols
	}
	request, err := jsonContent(order)
	if err != nil {
		return depot.Published{}, err
	}
	var out published
	status, err := c.send(ctx, http.MethodPost, path, originQuery(o.Annotations), &request, &out)
	return out.result(status), err
}

type file struct {
	name string
	content
}

// releaseFiles lists the packages, then the other files.
func releaseFiles(dist fs.FS, plan *depot.ProviderPlan) []file {
	var files []file
	for _, k := range plan.Packages {
		open := func() (io.ReadCloser, error) { return dist.Open(k.Filename) }
		files = append(files, file{k.Filename, content{open, k.Size, k.SHA256}})
	}
	texts := plan.Texts()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		sum := sha256.Sum256(text)
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
		files = append(files, file{name, content{open, int64(len(text)), hex.EncodeToString(sum[:])}})
	}
	return files
}

// uploadFile returns the receipt of a file. It sends the file if the server does not have it,
// or cannot look it up.
func (c *Client) uploadFile(ctx context.Context, path string, f file) (string, error) {
	question, err := jsonContent(map[string]string{"digest": "sha256:" + f.sha256})
	if err != nil {
		return "", err
	}
	var answer struct {
		Receipt string `json:"receipt"`
	}
	_, err = c.send(ctx, http.MethodPost, path, nil, &question, &answer)
	if err == nil || !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrUnsupported) {
		return answer.Receipt, err
	}
	body := f.content
	body.open = func() (io.ReadCloser, error) {
		r, err := f.open()
		if err != nil {
			return nil, err
		}
		return depot.Watch(r, c.o.Progress.Of(f.name, f.size)), nil
	}
	_, err = c.send(ctx, http.MethodPut, path, nil, &body, &answer)
	return answer.Receipt, err
}
