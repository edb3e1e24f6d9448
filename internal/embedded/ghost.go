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

// The library makes the folder of a tag first and its link last. Killed, or
// out of space, in between it leaves a tag that is listed and that nobody can
// read: a claim of that kind would lock its state until somebody ends it.

// removeGhost removes the folder of a tag that has no link. It is alone with
// the directory: others may be writing the same tag.
func (s *store) removeGhost(dir string) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if _, err := os.Lstat(filepath.Join(dir, "current", "link")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// removeGhosts does so for all tags and returns how many there were.
func (s *store) removeGhosts(ctx context.Context) (n int, err error) {
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
			if _, err := os.Lstat(filepath.Join(dir, "current", "link")); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := s.removeGhost(dir); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func repositoryDir(root, name string) string {
	return filepath.Join(root, "docker", "registry", "v2", "repositories", filepath.FromSlash(name))
}

// listRepositories returns the names of all folders that are repositories,
// sorted.
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

// readDir lists a folder, which need not exist.
func readDir(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}
