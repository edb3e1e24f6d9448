// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// contents is the content of one repository, read from its directory.
type contents struct {
	name      string
	tags      map[string]link // by tag
	manifests map[string]link // by digest
	layers    map[string]link
}

// link is a directory that points to a digest.
type link struct {
	dir  string
	to   string // empty: there is no file named link
	seen time.Time
}

// repository decides what is removed: not what tags lead to, recent manifests, what these need, and
// referrers of all these.
func (p *plan) repository(ctx context.Context, name string) error {
	c, err := p.contents(name)
	if err != nil {
		return err
	}
	keep, err := p.markReachable(ctx, c)
	if err != nil {
		return err
	}
	g := Garbage{}
	for tag, l := range c.tags {
		if l.to == "" && !p.isYoung(l.seen) || p.isOrphanTag(c, keep, tag, l) {
			g.Tags++
			p.remove = append(p.remove, l.dir)
		}
	}
	for digest, l := range c.manifests {
		if !keep[digest] && !p.isYoung(l.seen) {
			g.Manifests++
			p.remove = append(p.remove, l.dir)
			p.owner[digest] = name
		}
	}
	for digest, l := range c.layers {
		if keep[digest] {
			continue
		}
		if p.isYoung(l.seen) || p.isYoung(p.blobs[digest].seen) {
			p.live[digest] = true
			continue
		}
		p.remove = append(p.remove, l.dir)
		if p.owner[digest] == "" {
			p.owner[digest] = name
		}
	}
	for digest := range keep {
		p.live[digest] = true
	}
	uploads, err := p.uploads(name, &g)
	if err != nil {
		return err
	}
	if len(c.tags)+len(c.manifests)+len(c.layers)+uploads == 0 {
		for _, folder := range []string{"_manifests", "_layers", "_uploads"} {
			p.remove = append(p.remove, filepath.Join(repositoryDir(p.root, name), folder))
		}
	}
	if g != (Garbage{}) {
		g.Repository = name
		*p.lossOf(name) = g
	}
	return nil
}

// markReachable returns everything reachable in a repository.
func (p *plan) markReachable(ctx context.Context, c *contents) (map[string]bool, error) {
	keep := map[string]bool{}
	referrers := map[string][]string{}
	var todo []string
	for digest, l := range c.manifests {
		if p.isYoung(l.seen) || p.isYoung(p.blobs[digest].seen) {
			todo = append(todo, digest)
		}
		if m, err := p.readReferences(digest); err == nil && m.subject != "" {
			referrers[m.subject] = append(referrers[m.subject], digest)
		}
	}
	for tag, l := range c.tags {
		if subject := subjectOf(tag); c.hasManifest(subject) {
			referrers[subject] = append(referrers[subject], l.to)
			continue
		}
		todo = append(todo, l.to)
	}
	for len(todo) > 0 {
		digest := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if digest == "" || keep[digest] {
			continue
		}
		keep[digest] = true
		todo = append(todo, referrers[digest]...)
		if !c.hasManifest(digest) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := p.readReferences(digest)
		if err != nil {
			return nil, err
		}
		todo = append(todo, m.to...)
	}
	return keep, nil
}

func (c *contents) hasManifest(manifest string) bool {
	l, ok := c.manifests[manifest]
	return ok && l.to != ""
}

// subjectTag matches a referrers fallback index (OCI distribution specification 1.1, "Referrers Tag
// Schema"), or a cosign signature (SIGNATURE_SPEC.md).
var subjectTag = text.Pattern(`^sha256-([0-9a-f]{64})(\.[a-z]+)?$`)

func subjectOf(tag string) string {
	if m := subjectTag().FindStringSubmatch(tag); m != nil {
		return "sha256:" + m[1]
	}
	return ""
}

// isOrphanTag recognizes a tag for referrers of a manifest here that is removed, if nothing else
// keeps the referrer.
func (p *plan) isOrphanTag(c *contents, keep map[string]bool, tag string, l link) bool {
	subject := subjectOf(tag)
	return c.hasManifest(subject) && !keep[subject] && !keep[l.to] && !p.isYoung(c.manifests[subject].seen)
}

func (p *plan) contents(name string) (*contents, error) {
	dir := repositoryDir(p.root, name)
	c := &contents{name: name}
	var err, err2, err3 error
	c.manifests, err = p.links(filepath.Join(dir, "_manifests", "revisions"))
	c.layers, err2 = p.links(filepath.Join(dir, "_layers"))
	c.tags, err3 = p.tags(filepath.Join(dir, "_manifests", "tags"))
	return c, errors.Join(err, err2, err3)
}

// links reads the files ALGORITHM/HEX/link.
func (p *plan) links(top string) (map[string]link, error) {
	all := map[string]link{}
	algorithms, err := readDir(top)
	if err != nil {
		return nil, err
	}
	for _, a := range algorithms {
		list, err := readDir(filepath.Join(top, a.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			digest := a.Name() + ":" + e.Name()
			dir := filepath.Join(top, a.Name(), e.Name())
			info, err := p.fileInside(dir, "link")
			if err != nil {
				return nil, err
			}
			if info == nil {
				continue
			}
			l := link{dir: dir, seen: info.ModTime()}
			if !info.IsDir() {
				l.to = digest
			}
			all[digest] = l
		}
	}
	return all, nil
}

// tags reads TAG/current/link. Nothing reads TAG/index.
func (p *plan) tags(top string) (map[string]link, error) {
	all := map[string]link{}
	list, err := readDir(top)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		l := link{dir: filepath.Join(top, e.Name())}
		info, err := os.Stat(l.dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l.seen = info.ModTime()
		if _, err := p.fileInside(filepath.Join(l.dir, "current"), "link"); err != nil {
			return nil, err
		}
		to, err := os.ReadFile(filepath.Join(l.dir, "current", "link"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		l.to = strings.TrimSpace(string(to))
		all[e.Name()] = l
		if err := p.removePast(filepath.Join(l.dir, "index", "sha256"), l.to); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// removePast removes all but the current entry of a tag's index.
func (p *plan) removePast(index, present string) error {
	list, err := readDir(index)
	if err != nil {
		return err
	}
	for _, e := range list {
		if "sha256:"+e.Name() == present {
			continue
		}
		if info, err := e.Info(); err == nil && !p.isYoung(info.ModTime()) {
			p.remove = append(p.remove, filepath.Join(index, e.Name()))
		}
	}
	return nil
}

// uploads finds abandoned uploads by their last byte, and counts all.
func (p *plan) uploads(name string, g *Garbage) (int, error) {
	top := filepath.Join(repositoryDir(p.root, name), "_uploads")
	list, err := readDir(top)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		dir := filepath.Join(top, e.Name())
		var size int64
		var last time.Time
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if !e.IsDir() {
				size += info.Size()
			}
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
			return nil
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return 0, err
		case !last.Before(p.alive):
			p.used += size
		default:
			g.Uploads = g.Uploads + 1
			g.Bytes = g.Bytes + size
			p.remove = append(p.remove, dir)
		}
	}
	return len(list), nil
}
