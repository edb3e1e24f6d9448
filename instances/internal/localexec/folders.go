// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
)

const (
	// keepErrored is how long a state is kept that a tool could not store.
	keepErrored = 30 * 24 * time.Hour
	// keepEnded is how long the folder of an attempt is kept whose result was not read.
	keepEnded = 24 * time.Hour
)

// makeFolders makes folders whose parents exist, and sets the mode of existing ones too.
func makeFolders(mode fs.FileMode, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(name, mode); err != nil {
			return err
		}
		if err := os.Chmod(name, mode); err != nil {
			return err
		}
	}
	return nil
}

// cleanFolder removes the folder of an ended attempt, unless its state is stored nowhere else.
func cleanFolder(l *Local, folder string) error {
	if folder == "" {
		return nil
	}
	if m, err := readMarker(folder); err == nil && m.Cgroup != "" {
		removeCgroup(l, m.Cgroup)
	}
	if sandbox.FindErrored(folder) != "" {
		return nil
	}
	return removeAttempt(folder)
}

// removeAttempt removes the folder of an attempt, and that of its instance with the last one.
func removeAttempt(dir string) error {
	if err := sandbox.Remove(dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir))
	return nil
}

// eachAttempt calls do for each attempt's folder of an instance, or of all ("*").
func (l *Local) eachAttempt(id string, do func(dir string, m marker, unread error) error) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), id, "*-*"))
	errs := []error{err}
	for _, dir := range dirs {
		m, unread := readMarker(dir)
		errs = append(errs, do(dir, m, unread))
	}
	return errors.Join(errs...)
}

// cleanEarlier removes what earlier attempts left here; a folder with an unstored state is kept.
func cleanEarlier(l *Local, r lifecycle.Ref) error {
	err := l.eachAttempt(r.ID, func(dir string, m marker, unread error) error {
		at, ok := records.ParseInstanceTag(records.TagRun + "-" + r.ID + "-" + filepath.Base(dir))
		if earlier := at.N < r.N || at.N == r.N && at.Attempt < r.Attempt; !ok || !earlier || unread != nil || l.isRunning(dir, m) {
			return nil
		}
		return cleanFolder(l, dir)
	})
	return errors.Join(err, cleanErrored(l, r.ID))
}

// cleanErrored removes the oldest states of an instance that could not be stored, once all exceed
// the size of one; the newest is kept.
func cleanErrored(l *Local, id string) error {
	type left struct {
		at        records.InstanceTag
		dir, file string
		size      int64
	}
	var all []left
	err := l.eachAttempt(id, func(dir string, m marker, unread error) error {
		at, ok := records.ParseInstanceTag(records.TagRun + "-" + id + "-" + filepath.Base(dir))
		if !ok || unread != nil || l.isRunning(dir, m) {
			return nil // it is starting or running
		}
		file := sandbox.FindErrored(dir)
		if info, err := os.Lstat(file); err == nil {
			all = append(all, left{at, dir, file, info.Size()})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(cmp.Compare(b.at.N, a.at.N), cmp.Compare(b.at.Attempt, a.at.Attempt)) // not by time: the tool sets the times of its files
	})
	var total int64
	errs := []error{err}
	for _, e := range all {
		if total += e.size; total <= sandbox.MaxErrored {
			continue
		}
		l.o.Logger.Warn("instances: removed a state that could not be stored, to make room for newer ones of its instance", "file", e.file, "bytes", e.size)
		errs = append(errs, sandbox.Remove(e.dir))
	}
	return errors.Join(errs...)
}

// removeCgroup removes a control group and those that a tool made in it.
func removeCgroup(l *Local, dir string) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(l, filepath.Join(dir, e.Name()))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.o.Logger.Warn("instances: control group not removed", "folder", dir, "error", err)
	}
}

// Tidy removes what attempts of gone instances left here, except running ones and any since asOf.
func (l *Local) Tidy(asOf time.Time, gone func(id string) bool) error {
	return l.eachAttempt("*", func(dir string, m marker, unread error) error {
		if !gone(filepath.Base(filepath.Dir(dir))) {
			return nil
		}
		if unread != nil || m.At >= asOf.Unix() || l.isRunning(dir, m) {
			return nil // without a marker it is starting, or is removed at the next start
		}
		if sandbox.FindErrored(dir) != "" {
			return nil // it may be all that is known of resources; cleanUpFolders ends it
		}
		return removeAttempt(dir)
	})
}

// KillAll kills all attempts here, unstored work lost, and waits until they are gone or ctx ends.
func KillAll(ctx context.Context, l *Local) error {
	return l.eachAttempt("*", func(dir string, m marker, unread error) error {
		if unread != nil || !l.isRunning(dir, m) {
			return nil
		}
		err := l.kill(workDir{marker: m, known: true, here: true, folder: dir})
		for l.isRunning(dir, m) {
			if waited := text.Wait(ctx, 10*time.Millisecond); waited != nil {
				return errors.Join(err, waited)
			}
		}
		return err
	})
}

// cleanUpCgroups removes the control groups of attempts that do not run. All groups below the
// delegated one are the server's. No attempt begins meanwhile.
func cleanUpCgroups(ctx context.Context, l *Local) (err error) {
	if l.cgroup == "" {
		return nil
	}
	lock, err := l.lockRuns(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	entries, err := os.ReadDir(l.cgroup)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, ok := records.ParseInstanceTag(e.Name())
		if !e.IsDir() || !ok || at.Kind != records.TagRun {
			continue
		}
		dir := l.scratch(lifecycle.Ref{ID: at.ID, N: at.N, Attempt: at.Attempt})
		if m, err := readMarker(dir); err == nil && l.isRunning(dir, m) {
			continue
		}
		removeCgroup(l, filepath.Join(l.cgroup, e.Name()))
	}
	return nil
}

// cleanUpFolders removes the folders of interrupted starts and of long-ended attempts.
func cleanUpFolders(l *Local) error {
	return l.eachAttempt("*", func(dir string, m marker, unread error) error {
		keep := keepEnded
		switch {
		case errors.Is(unread, fs.ErrNotExist):
			keep = 0
		case unread != nil:
			return unread
		case l.isRunning(dir, m):
			return nil
		case m.Host != l.here.Host, sandbox.FindErrored(dir) != "":
			keep = keepErrored
		}
		if info, err := os.Lstat(dir); err != nil || time.Since(info.ModTime()) < keep {
			return err
		}
		return removeAttempt(dir)
	})
}
