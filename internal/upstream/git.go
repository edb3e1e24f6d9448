// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

const (
	maxCheckout     = 50_000  // files and directories of a tree
	maxCheckoutSize = 2 << 30 // bytes of its files
)

// Git reads modules from git repositories.
type Git struct {
	// Token returns the HTTPS token for a host; "" is anonymous. SSH uses the user's agent.
	Token TokenFunc
	Guard *Guard // nil: any address

	SSH      *SSHKey       // nil: the user's agent and known hosts
	MaxBytes int64         // maximum of the received bytes, of the unpacked bytes, and of a checkout; 0: 2 GiB
	Timeout  time.Duration // for a list or a checkout; 0: half an hour
}

func (g *Git) maxBytes() int64 { return cmp.Or(g.MaxBytes, maxCheckoutSize) }

// withTimeout bounds the duration of an exchange.
func (g *Git) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(g.Timeout, maxGitTime))
}

// maxGitTime is the default bound of an exchange.
const maxGitTime = 30 * time.Minute

// InstallGit makes every Git of this process send its requests over h. It
// allows only https, http, ssh and, for locations that the user names, local
// repositories. The library has one client per scheme and process.
func InstallGit(h *http.Client) {
	for _, scheme := range []string{"https", "http"} {
		client.InstallProtocol(scheme, githttp.NewClient(boundGit(h)))
	}
	client.InstallProtocol("git", nil)
}

// checkLocation refuses other schemes and internal hosts.
func (g *Git) checkLocation(ctx context.Context, l Location) error {
	switch {
	case l.Local && l.URL.Scheme == "file":
		return nil
	case !gitScheme(l.URL):
		return oci.Unsupported("git repositories are read over https and ssh")
	case g.Guard == nil:
		return nil
	}
	port := map[string]string{"https": "443", "http": "80", "ssh": "22"}[l.URL.Scheme]
	return g.Guard.Check(ctx, l.URL.Hostname(), cmp.Or(l.URL.Port(), port))
}

// Tag is a tag of a git repository with its commit.
type Tag struct {
	Name   string
	Commit string // 40 hex digits; for an annotated tag the commit that it leads to
}

func (g *Git) basicAuth(l Location) transport.AuthMethod {
	if g.Token == nil || l.URL.Scheme != "https" {
		return nil
	}
	if t := g.Token(l.URL.Host); t != "" {
		return &githttp.BasicAuth{Username: "x-access-token", Password: t}
	}
	return nil
}

// Tags lists the tags of a repository in one exchange, in name order.
func (g *Git) Tags(ctx context.Context, l Location) ([]Tag, error) {
	if err := g.checkLocation(ctx, l); err != nil {
		return nil, fmt.Errorf("listing the tags of %s: %w", Redact(l.URL.String()), err)
	}
	ctx, cancel := g.withTimeout(ctx)
	defer cancel()
	where, auth, done, err := g.reachRepository(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("listing the tags of %s: %w", Redact(l.URL.String()), err)
	}
	defer done()
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{where}})
	refs, err := remote.ListContext(ctx, &git.ListOptions{Auth: auth, PeelingOption: git.AppendPeeled})
	if err != nil {
		return nil, fmt.Errorf("listing the tags of %s: %w", Redact(l.URL.String()), gitError(err))
	}
	commits := map[string]string{}
	for _, ref := range refs {
		name, ok := strings.CutPrefix(ref.Name().String(), "refs/tags/")
		if !ok {
			continue
		}
		base, peeled := strings.CutSuffix(name, "^{}")
		if _, seen := commits[base]; peeled || !seen {
			commits[base] = ref.Hash().String()
		}
	}
	tags := make([]Tag, 0, len(commits))
	for name, commit := range commits {
		tags = append(tags, Tag{Name: name, Commit: commit})
	}
	slices.SortFunc(tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	return tags, nil
}

// Checkout writes the tree of l.Ref (a tag, branch or full commit; "" is the default branch) into
// dir, which must be empty, and returns the commit. It fetches one commit, or the whole history if
// a commit is named and the server does not serve commits by hash. A child process unpacks the
// received pack, see [Child]. Submodules, whose folders are empty, and LFS content are not fetched.
func (g *Git) Checkout(ctx context.Context, l Location, dir string) (string, error) {
	if err := g.checkLocation(ctx, l); err != nil {
		return "", fmt.Errorf("fetching %s: %w", Redact(l.URL.String()), err)
	}
	ctx, cancel := g.withTimeout(ctx)
	defer cancel()
	commit, err := g.checkOut(ctx, l, dir)
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w", Redact(l.URL.String()), err)
	}
	return commit, nil
}

func (g *Git) checkOut(ctx context.Context, l Location, dir string) (_ string, err error) {
	where, auth, done, err := g.reachRepository(ctx, l)
	if err != nil {
		return "", err
	}
	defer done()
	tmp, remove, err := files.TempDir("")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	got, err := g.fetch(ctx, where, auth, l.Ref, tmp)
	if err != nil {
		return "", gitError(err)
	}
	return g.unpack(ctx, unpackOrder{Pack: got.file, Dir: dir, Hash: got.hash.String(), MaxBytes: g.maxBytes()})
}

// boundTree bounds the files that a checkout writes. A few trees that refer to
// each other many times can describe any number of files.
func boundTree(repo *git.Repository, hash plumbing.Hash, limit int64) error {
	commit, err := repo.CommitObject(hash)
	if err != nil {
		return err
	}
	tree, err := commit.Tree()
	if err != nil {
		return err
	}
	walk := object.NewTreeWalker(tree, true, nil)
	defer walk.Close()
	entries := 0
	size := int64(0)
	for {
		_, entry, err := walk.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Mode.IsFile() {
			n, err := repo.Storer.EncodedObjectSize(entry.Hash)
			if err != nil {
				return err
			}
			size += n
		}
		if entries++; entries > maxCheckout || size > limit {
			return fmt.Errorf("more than %d files and directories, or %d bytes: %w", maxCheckout, limit, oci.ErrTooLarge)
		}
	}
}

// refNames returns the references that a short name can mean, tags first as in git itself.
func refNames(ref string) []plumbing.ReferenceName {
	switch {
	case ref == "", plumbing.IsHash(ref):
		return []plumbing.ReferenceName{plumbing.HEAD}
	case strings.HasPrefix(ref, "refs/"):
		return []plumbing.ReferenceName{plumbing.ReferenceName(ref)}
	}
	return []plumbing.ReferenceName{plumbing.NewTagReferenceName(ref), plumbing.NewBranchReferenceName(ref)}
}

// gitFailure is an error of git that also matches a sentinel of package oci.
// Its text is only git's, because a forge is no registry.
type gitFailure struct{ err, kind error }

func (e *gitFailure) Error() string {
	return strings.TrimSuffix(strings.TrimSpace(Redact(e.err.Error())), ":") // a forge may append an empty message
}

func (e *gitFailure) Unwrap() []error { return []error{e.err, e.kind} }

// gitError maps go-git's errors to the sentinels of package oci.
func gitError(err error) error {
	switch {
	case errors.Is(err, oci.ErrTooLarge):
		return err
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.As(err, &git.NoMatchingRefSpecError{}):
		return &gitFailure{err, oci.ErrNotFound}
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return &gitFailure{err, oci.ErrUnauthenticated}
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return &gitFailure{err, oci.ErrDenied}
	}
	return &gitFailure{err, oci.ErrUnavailable}
}
