// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// UnpackCommand is the first argument of a process that only calls [Child] to
// unpack a pack of a repository.
const UnpackCommand = "git-unpack"

// childEnv marks the child process, which must not start another one.
const childEnv = "OKARA_GIT_UNPACK"

const (
	unpackMemory = 1 << 30 // bytes of data memory of the child
	unpackTime   = 10 * time.Minute
	maxUnpackSay = 64 << 10 // bytes of the child's output
)

// unpackOrder is the input of the child on stdin.
type unpackOrder struct {
	Pack, Dir, Hash string
	MaxBytes        int64
}

// unpackAnswer is the output of the child. Kind is a key of unpackKinds.
type unpackAnswer struct{ Commit, Error, Kind string }

// unpackKinds returns the errors that are distinguished, by name.
func unpackKinds() map[string]error {
	return map[string]error{"large": oci.ErrTooLarge, "missing": oci.ErrNotFound, "corrupt": oci.ErrCorrupt}
}

// unpack has a child process write the tree of a commit into dir, and returns the commit. The child
// has no secrets, sends no requests, and has bounded memory and time.
func (g *Git) unpack(ctx context.Context, order unpackOrder) (string, error) {
	if os.Getenv(childEnv) != "" {
		return "", errors.New("this program cannot unpack repositories: unknown command " + UnpackCommand)
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	in, err := json.Marshal(order)
	if err != nil {
		return "", err
	}
	child, cancel := context.WithTimeout(ctx, unpackTime)
	defer cancel()
	cmd := exec.CommandContext(child, program, UnpackCommand)
	cmd.Env = []string{childEnv + "=1", "TMPDIR=" + os.TempDir(), "HOME=" + order.Dir}
	cmd.Stdin = bytes.NewReader(in)
	cmd.WaitDelay = 10 * time.Second
	out, stderr := text.Beginning{Max: maxUnpackSay}, text.Beginning{Max: maxUnpackSay}
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	err = cmd.Run()
	if ctx.Err() != nil { // the caller gave up, which says nothing about the repository
		return "", fmt.Errorf("unpacking: %w", context.Cause(ctx))
	}
	if child.Err() != nil {
		return "", fmt.Errorf("unpacking took too long: %w: %w", context.Cause(child), oci.ErrTooLarge)
	}
	if err != nil {
		first, _, _ := strings.Cut(string(stderr.Bytes()), "\n")
		return "", fmt.Errorf("unpacking takes more than %d MiB of memory, or fails: %w: %s: %w", unpackMemory>>20, err, text.Excerpt(first), oci.ErrTooLarge)
	}
	var answer unpackAnswer
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return "", fmt.Errorf("the response of %s: %w", UnpackCommand, err)
	}
	if answer.Error != "" {
		return "", fmt.Errorf("%s: %w", text.Excerpt(answer.Error), cmp.Or(unpackKinds()[answer.Kind], oci.ErrCorrupt))
	}
	return answer.Commit, nil
}

// Child does the work of a process that was started with [UnpackCommand], and
// returns its exit code. In any other process it does nothing and ok is false.
func Child(args []string, in io.Reader, out io.Writer) (code int, ok bool) {
	if len(args) < 2 || args[1] != UnpackCommand || os.Getenv(childEnv) == "" {
		return 0, false
	}
	debug.SetMemoryLimit(unpackMemory / 2)
	if err := limitChild(unpackMemory, unpackTime); err != nil {
		return 1, true
	}
	var order unpackOrder
	if err := json.NewDecoder(io.LimitReader(in, maxUnpackSay)).Decode(&order); err != nil {
		return 1, true
	}
	var answer unpackAnswer
	commit, err := order.writeTree()
	if answer.Commit = commit; err != nil {
		answer = unpackAnswer{Error: err.Error()}
		for kind, known := range unpackKinds() {
			if errors.Is(err, known) {
				answer.Kind = kind
			}
		}
	}
	if json.NewEncoder(out).Encode(answer) != nil {
		return 1, true
	}
	return 0, true
}

// writeTree indexes the pack, which resolves its deltas, and writes the tree.
func (o unpackOrder) writeTree() (string, error) {
	if err := o.checkPackFile(); err != nil {
		return "", err
	}
	repo, err := git.PlainInit(o.Dir, false)
	if err != nil {
		return "", err
	}
	if err := o.indexPack(repo); err != nil {
		return "", fmt.Errorf("a pack: %w: %w", err, oci.ErrCorrupt)
	}
	commit, err := peelTags(repo, plumbing.NewHash(o.Hash))
	if err == nil {
		err = boundTree(repo, commit, o.MaxBytes)
	}
	var tree *git.Worktree
	if err == nil {
		tree, err = repo.Worktree()
	}
	if err == nil {
		err = tree.Checkout(&git.CheckoutOptions{Hash: commit})
	}
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		err = fmt.Errorf("%w: %w", err, oci.ErrNotFound)
	}
	return commit.String(), err
}

func (o unpackOrder) checkPackFile() error {
	f, err := os.Open(o.Pack)
	if err != nil {
		return err
	}
	defer f.Close()
	return checkPack(f, o.MaxBytes)
}

func (o unpackOrder) indexPack(repo *git.Repository) (err error) {
	f, err := os.Open(o.Pack)
	if err != nil {
		return err
	}
	defer f.Close()
	to, ok := repo.Storer.(storer.PackfileWriter)
	if !ok {
		return errors.New("the storage does not accept packs")
	}
	w, err := to.PackfileWriter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = io.Copy(w, f)
	return err
}

// maxTags bounds a chain of tags that refer to each other.
const maxTags = 10

// peelTags follows annotated tags to a commit.
func peelTags(repo *git.Repository, hash plumbing.Hash) (plumbing.Hash, error) {
	for range maxTags {
		tag, err := object.GetTag(repo.Storer, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return hash, nil // a commit, or a missing object
		}
		if err != nil {
			return hash, err
		}
		hash = tag.Target
	}
	return hash, fmt.Errorf("more than %d chained tags: %w", maxTags, oci.ErrCorrupt)
}
