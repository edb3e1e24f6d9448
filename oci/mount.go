// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

// mounts reports whether it is worth asking for a mount from another repository:
// it is at the same registry, and no mount into this one was refused yet.
func (r *Repo) mounts(from *Repo) bool {
	if from == nil || from.name == r.name || apiHost(from.c.host) != apiHost(r.c.host) {
		return false
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return !r.s.noMounts
}

// mount makes a blob of another repository of the registry one of this one (OCI
// distribution specification 1.1, "Mounting a blob from another repository").
// The registry decides, by the credential for this repository, whether the other
// one may be read. Where it opens an upload instead (202) the blob is sent there.
// After any error the blob is to be pushed.
func (r *Repo) mount(ctx context.Context, b Blob) error {
	resp, err := r.askMount(ctx, b)
	if err != nil {
		// Each further blob would cost a refusal, too. That one blob is not there,
		// or that nobody answers, says nothing about the next.
		if !Passing(err) && !errors.Is(err, ErrNotFound) && ctx.Err() == nil {
			r.s.mu.Lock()
			r.s.noMounts = true
			r.s.mu.Unlock()
		}
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		if err := r.uploadTo(ctx, resp, b); err != nil {
			return err
		}
	}
	r.c.transport.recent.add(r.name, b.Digest)
	return nil
}

// askMount sends the request. A refusal says nothing about the credential for
// this repository alone, so that nothing is done about it.
func (r *Repo) askMount(ctx context.Context, b Blob) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	resp, err := r.sendOnce(ctx, request{
		method: http.MethodPost, path: "blobs/uploads/", reads: b.From.name,
		query: url.Values{"mount": {b.Digest.String()}, "from": {b.From.name}},
	})
	if err != nil {
		return nil, err
	}
	discard(resp)
	return resp, nil
}
