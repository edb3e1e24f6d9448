// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The library makes a tag's directory first and its link last, and DELETE of a manifest removes
// links first. Killed in between, or by a full disk, it leaves a tag that is listed and cannot be
// read: as a claim, it would lock its state until somebody removes it.

// removeDangling removes a tag without link, with exclusive access: another request may be writing
// it.
func (s *store) removeDangling(dir string) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if _, err := os.Lstat(filepath.Join(dir, "current", "link")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// removeDanglingTags removes and counts unreadable tags, with exclusive access.
func (s *store) removeDanglingTags(ctx context.Context) (n int, err error) {
	repositories, err := listRepositories(ctx, s.root)
	if err != nil {
		return 0, err
	}
	for _, name := range repositories {
		tags := filepath.Join(repositoryDir(s.root, name), "_manifests", "tags")
		list, err := readDir(tags)
		if err != nil {
			return n, err
		}
		for _, tag := range list {
			dir := filepath.Join(tags, tag.Name())
			dangling, err := isDangling(repositoryDir(s.root, name), dir)
			if err != nil {
				return n, err
			}
			if dangling {
				if err := os.RemoveAll(dir); err != nil {
					return n, err
				}
				n++
			}
		}
	}
	return n, nil
}

// removeUploads removes and counts abandoned uploads, with exclusive access.
func (s *store) removeUploads(ctx context.Context) (n int, err error) {
	repositories, err := listRepositories(ctx, s.root)
	if err != nil {
		return 0, err
	}
	for _, name := range repositories {
		dir := filepath.Join(repositoryDir(s.root, name), "_uploads")
		list, err := readDir(dir)
		if err != nil {
			return n, err
		}
		for _, upload := range list {
			if err := os.RemoveAll(filepath.Join(dir, upload.Name())); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// isDangling recognizes a tag without a link, or to a manifest that is not there.
func isDangling(repository, tag string) (bool, error) {
	to, err := os.ReadFile(filepath.Join(tag, "current", "link"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	algorithm, hex, ok := strings.Cut(strings.TrimSpace(string(to)), ":")
	if !ok {
		return false, nil
	}
	_, err = os.Lstat(filepath.Join(repository, "_manifests", "revisions", algorithm, hex, "link"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

func repositoryDir(root, name string) string {
	return filepath.Join(root, "docker", "registry", "v2", "repositories", filepath.FromSlash(name))
}

func listRepositories(ctx context.Context, root string) (names []string, err error) {
	top := repositoryDir(root, "")
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.IsDir() || !strings.HasPrefix(e.Name(), "_"):
			return nil
		}
		name, err := filepath.Rel(top, filepath.Dir(path))
		if name = filepath.ToSlash(name); err == nil && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
		if err != nil {
			return err
		}
		return filepath.SkipDir
	})
	return names, err
}

// readDir lists a directory, which may be missing.
func readDir(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}
