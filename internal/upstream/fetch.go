// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"

	"github.com/seed-141914ff/okara/oci"
)

// maxRefs bounds the list of references of a repository, in bytes: about 100,000 references.
const maxRefs = 16 << 20

// fetched is a pack in a file, and the requested hash.
type fetched struct {
	file string
	hash plumbing.Hash // of a commit, or of a tag that names one
}

// fetch stores the pack for a reference in dir, without parsing it.
func (g *Git) fetch(ctx context.Context, where string, auth transport.AuthMethod, ref, dir string) (_ fetched, err error) {
	endpoint, err := transport.NewEndpoint(where)
	if err != nil {
		return fetched{}, err
	}
	c, err := client.NewClient(endpoint)
	if err != nil {
		return fetched{}, err
	}
	session, err := c.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return fetched{}, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return fetched{}, err
	}
	req, hash, err := packRequest(refs, ref)
	if err != nil {
		return fetched{}, err
	}
	answer, err := session.UploadPack(ctx, req)
	if err != nil {
		return fetched{}, err
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	file := filepath.Join(dir, "pack")
	return fetched{file, hash}, g.savePack(file, demultiplex(req.Capabilities, answer))
}

// packRequest requests one commit, or the whole history if a commit is named
// and the server does not serve commits by hash.
func packRequest(refs *packp.AdvRefs, ref string) (*packp.UploadPackRequest, plumbing.Hash, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	all, err := refs.AllReferences()
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	if refs.Capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress) // it takes no argument
	}
	byHash := plumbing.IsHash(ref)
	hash := plumbing.NewHash(ref)
	if !byHash {
		if hash, err = resolveRef(all, ref); err != nil {
			return nil, plumbing.ZeroHash, err
		}
	}
	if !byHash || refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		req.Wants = []plumbing.Hash{hash}
		if refs.Capabilities.Supports(capability.Shallow) {
			req.Depth = packp.DepthCommits(1)
			_ = req.Capabilities.Set(capability.Shallow) // it takes no argument
		}
		return req, hash, nil
	}
	return req, hash, wantAll(req, all)
}

// resolveRef returns the hash of the first reference that a name can mean.
func resolveRef(all storer.ReferenceStorer, ref string) (plumbing.Hash, error) {
	for _, name := range refNames(ref) {
		if found, err := storer.ResolveReference(all, name); err == nil {
			return found.Hash(), nil
		}
	}
	return plumbing.ZeroHash, git.NoMatchingRefSpecError{}
}

func wantAll(req *packp.UploadPackRequest, all storer.ReferenceStorer) error {
	list, err := all.IterReferences()
	if err != nil {
		return err
	}
	seen := map[plumbing.Hash]bool{}
	return list.ForEach(func(r *plumbing.Reference) error {
		kept := r.Name().IsBranch() || r.Name().IsTag()
		if kept && r.Type() == plumbing.HashReference && !seen[r.Hash()] {
			seen[r.Hash()] = true
			req.Wants = append(req.Wants, r.Hash())
		}
		return nil
	})
}

func demultiplex(l *capability.List, r io.Reader) io.Reader {
	switch {
	case l.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case l.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// savePack writes the received pack to a file and bounds its size.
func (g *Git) savePack(file string, from io.Reader) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	limit := g.maxBytes()
	n, err := io.Copy(f, io.LimitReader(bufio.NewReader(from), limit+1))
	if err != nil {
		return err
	}
	if n > limit {
		return fmt.Errorf("the repository sent more than %d bytes: %w", limit, oci.ErrTooLarge)
	}
	return nil
}

// boundGit bounds the answers of git servers over https, because the library
// reads lists into memory.
func boundGit(h *http.Client) *http.Client {
	out := *h
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = gitTransport{out.Transport}
	return &out
}

type gitTransport struct{ next http.RoundTripper }

func (t gitTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := int64(maxRefs)
	if strings.HasSuffix(req.URL.Path, "/git-upload-pack") {
		limit = maxCheckoutSize
	}
	resp.Body = &boundBody{resp.Body, limit}
	return resp, nil
}

// boundBody fails after more than the allowed number of bytes.
type boundBody struct {
	io.ReadCloser
	left int64
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the repository sent more than allowed: %w", oci.ErrTooLarge)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
