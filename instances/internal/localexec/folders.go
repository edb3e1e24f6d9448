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

// makeFolders makes folders whose parents exist, and sets their mode even if they
// existed.
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

// cleanFolder removes the folder of an ended attempt, unless it has a state that is
// stored nowhere else. Such a folder keeps the files that say where the state belongs.
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
	if err := sandbox.Remove(folder); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(folder)) // of the instance, if this was its last attempt
	return nil
}

// cleanEarlier removes what earlier attempts of an instance left here, once a later one
// has ended: their states are stored by then, or keep their folders.
func cleanEarlier(l *Local, r lifecycle.Ref) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), r.ID, "*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		at, ok := records.ParseInstanceTag(records.TagRun + "-" + r.ID + "-" + filepath.Base(dir))
		earlier := at.N < r.N || at.N == r.N && at.Attempt < r.Attempt
		if m, err := readMarker(dir); ok && earlier && err == nil && !l.isRunning(dir, m) {
			errs = append(errs, cleanFolder(l, dir))
		}
	}
	return errors.Join(errors.Join(errs...), cleanErrored(l, r.ID))
}

// cleanErrored removes the oldest states of an instance that could not be stored, once
// all of them exceed the size of one state: each attempt could leave that much. The
// newest one is kept.
func cleanErrored(l *Local, id string) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), id, "*-*"))
	if err != nil {
		return err
	}
	type left struct {
		at        records.InstanceTag
		dir, file string
		size      int64
	}
	var all []left
	for _, dir := range dirs {
		at, ok := records.ParseInstanceTag(records.TagRun + "-" + id + "-" + filepath.Base(dir))
		if m, err := readMarker(dir); !ok || err != nil || l.isRunning(dir, m) {
			continue // it is starting or running
		}
		file := sandbox.FindErrored(dir)
		if info, err := os.Lstat(file); err == nil {
			all = append(all, left{at, dir, file, info.Size()})
		}
	}
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(cmp.Compare(b.at.N, a.at.N), cmp.Compare(b.at.Attempt, a.at.Attempt)) // not by time: the tool sets the times of its files
	})
	var total int64
	var errs []error
	for _, e := range all {
		if total += e.size; total <= sandbox.MaxErrored {
			continue
		}
		l.o.Logger.Warn("instances: a state that could not be stored is removed: newer ones of its instance use the space", "file", e.file, "bytes", e.size)
		errs = append(errs, sandbox.Remove(e.dir))
	}
	return errors.Join(errs...)
}

// removeCgroup removes a control group and those that a tool made in it. The kernel
// refuses to remove groups with processes.
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
		l.o.Logger.Warn("instances: a control group stays", "folder", dir, "error", err)
	}
}

// Tidy removes what attempts of gone instances left here, whichever replica observed
// their end. Running attempts are kept, and so are those begun after asOf.
func (l *Local) Tidy(asOf time.Time, gone func(id string) bool) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), "*", "*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if !gone(filepath.Base(filepath.Dir(dir))) {
			continue
		}
		m, err := readMarker(dir)
		if err != nil || m.At >= asOf.Unix() || l.isRunning(dir, m) {
			continue // without a marker it is starting, or is removed at the next start
		}
		errs = append(errs, sandbox.Remove(dir))
		_ = os.Remove(filepath.Dir(dir)) // of the instance, if this was its last attempt
	}
	return errors.Join(errs...)
}

// KillAll kills all attempts on this host, and what they started, and waits until they
// are gone or ctx ends. What they had not stored is lost.
func KillAll(ctx context.Context, l *Local) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), "*", "*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		m, err := readMarker(dir)
		if err != nil || !l.isRunning(dir, m) {
			continue
		}
		errs = append(errs, l.kill(workDir{marker: m, known: true, here: true, folder: dir}))
		for l.isRunning(dir, m) {
			if err := text.Wait(ctx, 10*time.Millisecond); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// cleanUpCgroups removes the control groups of attempts that do not run. Their folders
// may be gone already: the name of a group identifies its attempt, and all groups below
// the delegated one belong to the server. No attempt begins meanwhile.
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

// cleanUpFolders removes the folders of interrupted starts and of attempts that ended
// long ago.
func cleanUpFolders(l *Local) error {
	dirs, err := filepath.Glob(filepath.Join(l.runsFolder(), "*", "*-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		m, err := readMarker(dir)
		keep := keepEnded
		switch {
		case errors.Is(err, fs.ErrNotExist):
			keep = 0
		case err != nil:
			return err
		case l.isRunning(dir, m):
			continue
		case m.Host != l.here.Host, sandbox.FindErrored(dir) != "":
			keep = keepErrored
		}
		if err := removeOld(dir, keep); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(dir)) // of the instance, if this was its last attempt
	}
	return nil
}

// removeOld removes a folder that was not modified for keep.
func removeOld(dir string, keep time.Duration) error {
	info, err := os.Lstat(dir)
	if err != nil || time.Since(info.ModTime()) < keep {
		return err
	}
	return sandbox.Remove(dir)
}
