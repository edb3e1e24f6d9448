// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// plan determines what a collection removes. It caches references, a few hundred bytes a manifest,
// for the second scan.
type plan struct {
	root   string
	cutoff time.Time           // content written since then is kept
	alive  time.Time           // uploads that received bytes since then are kept
	refs   map[string]manifest // by digest; valid content never changes

	blobs  map[string]blob   // of the directory
	live   map[string]bool   // content that a repository needs
	owner  map[string]string // first repository of each blob that is removed
	loss   map[string]*Garbage
	remove []string // in this order: nothing refers to earlier entries
	used   int64
}

// blob is the content of the directory under a digest.
type blob struct {
	dir  string
	size int64
	seen time.Time
}

// manifest holds the references of a manifest or an index.
type manifest struct {
	to      []string
	subject string
}

func newPlan(root string, o Collection) *plan {
	never := time.Unix(math.MaxInt32, 0)
	p := &plan{root: root, cutoff: never, alive: never, refs: map[string]manifest{}}
	if o.MinAge <= 0 {
		return p
	}
	now := time.Now()
	p.cutoff = now.Add(-o.MinAge)
	if !o.closed {
		p.alive = now.Add(-min(o.MinAge, minAge))
	}
	return p
}

func (p *plan) isYoung(t time.Time) bool { return !t.Before(p.cutoff) }

func (p *plan) findGarbage(ctx context.Context) error {
	p.blobs = map[string]blob{}
	p.live = map[string]bool{}
	p.owner = map[string]string{}
	p.loss = map[string]*Garbage{}
	p.remove = nil
	p.used = 0
	if err := p.readBlobs(ctx); err != nil {
		return err
	}
	repositories, err := listRepositories(ctx, p.root)
	if err != nil {
		return err
	}
	for _, name := range repositories {
		if err := p.repository(ctx, name); err != nil {
			return fmt.Errorf("repository %s: %w", name, err)
		}
	}
	for digest, b := range p.blobs {
		if p.live[digest] || p.isYoung(b.seen) {
			p.used += b.size
			continue
		}
		g := p.lossOf(p.owner[digest])
		g.Blobs = g.Blobs + 1
		g.Bytes = g.Bytes + b.size
		p.remove = append(p.remove, b.dir)
	}
	return nil
}

// lossOf returns the entry for the losses of a repository.
func (p *plan) lossOf(name string) *Garbage {
	if p.loss[name] == nil {
		p.loss[name] = &Garbage{Repository: name}
	}
	return p.loss[name]
}

func (p *plan) sumCollected() (c Collected) {
	for _, g := range p.loss {
		c.Repositories = append(c.Repositories, *g)
		c.Blobs += g.Blobs
		c.Bytes += g.Bytes
	}
	slices.SortFunc(c.Repositories, func(a, b Garbage) int { return cmp.Compare(a.Repository, b.Repository) })
	c.Used = p.used
	return c
}

// readBlobs lists blobs/sha256/xx/HEX/data.
func (p *plan) readBlobs(ctx context.Context) error {
	top := filepath.Join(p.root, "docker", "registry", "v2", "blobs", "sha256")
	prefixes, err := readDir(top)
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := readDir(filepath.Join(top, prefix.Name()))
		if err != nil {
			return err
		}
		for _, e := range list {
			dir := filepath.Join(top, prefix.Name(), e.Name())
			info, err := p.fileInside(dir, "data")
			if err != nil {
				return err
			}
			if info != nil {
				b := blob{dir: dir, seen: info.ModTime()}
				if !info.IsDir() {
					b.size = info.Size()
				}
				p.blobs["sha256:"+e.Name()] = b
			}
		}
	}
	return nil
}

// fileInside returns a directory's file, else the directory, or nil, and removes other remains.
func (p *plan) fileInside(dir, name string) (found fs.FileInfo, err error) {
	list, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case e.Name() == name:
			found = info
		case !p.isYoung(info.ModTime()):
			p.remove = append(p.remove, filepath.Join(dir, e.Name()))
		}
	}
	if found == nil {
		if found, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return found, err
}

// maxManifest is larger than the limit of the library, 4 MiB, in bytes.
const maxManifest = 8 << 20

// readReferences returns a manifest's references, none of a missing one; a damaged one is an error:
// its needs are unknown.
func (p *plan) readReferences(digest string) (manifest, error) {
	if m, ok := p.refs[digest]; ok {
		return m, nil
	}
	b, ok := p.blobs[digest]
	if !ok {
		return manifest{}, nil
	}
	f, err := os.Open(filepath.Join(b.dir, "data"))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, nil
	}
	if err != nil {
		return manifest{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return manifest{}, err
	}
	if sum := sha256.Sum256(content); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return manifest{}, fmt.Errorf("manifest %s: %w", digest, ErrDamaged)
	}
	p.refs[digest] = parseManifest(content)
	return p.refs[digest], nil
}

func parseManifest(content []byte) (m manifest) {
	type descriptor struct {
		Digest string `json:"digest"`
	}
	var doc struct {
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
		Manifests []descriptor `json:"manifests"`
		Blobs     []descriptor `json:"blobs"`
		Subject   descriptor   `json:"subject"`
	}
	if json.NewDecoder(bytes.NewReader(content)).Decode(&doc) != nil {
		return m // the library accepted it as a manifest without references
	}
	m.subject = strings.Clone(doc.Subject.Digest)
	for _, d := range slices.Concat([]descriptor{doc.Config}, doc.Layers, doc.Manifests, doc.Blobs) {
		if d.Digest != "" {
			m.to = append(m.to, d.Digest)
		}
	}
	return m
}
