// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// TestGitBomb checks out a commit of ten objects that describe a hundred
// million files.
//
// Shows: mistakes 6
func TestGitBomb(t *testing.T) {
	l, _ := newGitRepo(t, "v1.0.0")
	repo := must.Get(git.PlainOpen(l.URL.Path))(t)
	store := func(o interface {
		Encode(plumbing.EncodedObject) error
	}) plumbing.Hash {
		encoded := repo.Storer.NewEncodedObject()
		must.Succeed(t, o.Encode(encoded))
		return must.Get(repo.Storer.SetEncodedObject(encoded))(t)
	}
	blob := repo.Storer.NewEncodedObject()
	blob.SetType(plumbing.BlobObject)
	hash := must.Get(repo.Storer.SetEncodedObject(blob))(t)
	mode := filemode.Regular
	for range 8 {
		tree := &object.Tree{}
		for i := range 10 {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: fmt.Sprint(i), Mode: mode, Hash: hash})
		}
		hash, mode = store(tree), filemode.Dir
	}
	who := object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(1, 0)}
	commit := store(&object.Commit{Author: who, Committer: who, Message: "x", TreeHash: hash})
	must.Succeed(t, repo.Storer.SetReference(plumbing.NewHashReference("refs/tags/v2.0.0", commit)))
	var g upstream.Git
	for _, ref := range []string{"v2.0.0", commit.String()} {
		l.Ref = ref
		dir := t.TempDir()
		if _, err := g.Checkout(t.Context(), l, dir); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrTooLarge", ref, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // .git
			t.Errorf("written: %v, %v", left, err)
		}
	}
}
