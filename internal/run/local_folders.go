// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	// keepErrored is how long a state is kept that a tool could not store.
	keepErrored = 30 * 24 * time.Hour
	// keepEnded is how long the folder of an attempt is kept whose result nobody
	// read.
	keepEnded = 24 * time.Hour
	// keepPlugins is how long plugins are kept that no run needs.
	keepPlugins = 7 * 24 * time.Hour
)

// makeFolders makes folders whose parents exist, with this mode, whatever they
// had before.
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

func (l *Local) plugins() string { return filepath.Join(l.o.Storage, "plugins") }

// makeCache makes the folder in which the tool keeps plugins. Each source and
// template has its own: what code of one leaves there, another does not start.
// Terraform has none, since its runs disturb each other there.
func (l *Local) makeCache(o *Order) (string, error) {
	if l.terraform {
		return "", nil
	}
	h := sha256.New()
	source := o.Spec.Source
	if o.Spec.Remote != nil { // each upload is other code: what they have in common is the workspace
		fmt.Fprintf(h, "remote %s\n", o.Spec.Ref.ID)
		source = instance.Source{}
	}
	for _, part := range []string{o.Spec.Snapshot, source.Module, source.Digest, source.Archive, source.Path} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	name := fmt.Sprintf("%s-%d", hex.EncodeToString(h.Sum(nil)[:16]), o.Isolation.UID)
	dir := filepath.Join(l.plugins(), name)
	if err := makeFolders(0o700, dir); err != nil {
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil { // it is in use
		return "", err
	}
	if o.Isolation.UID > 0 {
		return dir, os.Lchown(dir, o.Isolation.UID, o.Isolation.GID)
	}
	return dir, nil
}

// clean removes the folder of an attempt that has ended, unless it holds a state
// that is stored nowhere else.
func (l *Local) clean(folder string) error {
	if folder == "" || findErrored(folder) != "" {
		return nil
	}
	if m, err := readMarker(folder); err == nil && m.Cgroup != "" {
		l.removeCgroup(m.Cgroup)
	}
	if err := removeTree(folder); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(folder)) // of the instance, if that was its last attempt
	return nil
}

// cleanBefore removes what earlier attempts of an instance left here, once one has
// ended: their states are stored by now, or keep their folders.
func (l *Local) cleanBefore(r instance.Ref) error {
	dirs, err := filepath.Glob(filepath.Join(l.runs(), r.ID, "*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		at, ok := artifact.ParseInstanceTag(artifact.TagRun + "-" + r.ID + "-" + filepath.Base(dir))
		earlier := at.N < r.N || at.N == r.N && at.Attempt < r.Attempt
		if m, err := readMarker(dir); ok && earlier && err == nil && !l.running(dir, m) {
			errs = append(errs, l.clean(dir))
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a folder in which a tool may have made others that nobody
// can write to. No link is followed.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var open func(name string)
	open = func(name string) {
		if info, err := root.Lstat(name); err != nil || !info.IsDir() || root.Chmod(name, 0o700) != nil {
			return
		}
		entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
		if err != nil {
			return
		}
		for _, e := range entries {
			open(filepath.Join(name, e.Name()))
		}
	}
	open(".")
	return os.RemoveAll(dir)
}

// removeCgroup removes a control group and those that a tool made in it, but none
// with processes in it: the kernel refuses that.
func (l *Local) removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			l.removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.o.Logger.Warn("instances: a control group stays", "folder", dir, "error", err)
	}
}

// sweepCgroups removes the control groups of attempts that do not run. Their
// folders may have gone before them: what they are called tells which attempt it
// was, and all below the one that was delegated is ours. No attempt begins
// meanwhile.
func (l *Local) sweepCgroups(ctx context.Context) (err error) {
	if l.cgroup == "" {
		return nil
	}
	turn, err := l.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, turn.Close()) }()
	entries, err := os.ReadDir(l.cgroup)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, ok := artifact.ParseInstanceTag(e.Name())
		if !e.IsDir() || !ok || at.Kind != artifact.TagRun {
			continue
		}
		dir := l.scratch(instance.Ref{ID: at.ID, N: at.N, Attempt: at.Attempt})
		if m, err := readMarker(dir); err == nil && l.running(dir, m) {
			continue
		}
		l.removeCgroup(filepath.Join(l.cgroup, e.Name()))
	}
	return nil
}

// sweep removes what nobody will ask for: folders of starts that were cut off,
// of attempts that ended long ago, and plugins that were long not used.
func (l *Local) sweep() error {
	dirs, err := filepath.Glob(filepath.Join(l.runs(), "*", "*-*"))
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
		case l.running(dir, m):
			continue
		case m.Host != l.here.Host, findErrored(dir) != "":
			keep = keepErrored
		}
		if err := removeOld(dir, keep); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(dir)) // of the instance, if that was its last attempt
	}
	if dirs, err = filepath.Glob(filepath.Join(l.plugins(), "*")); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := removeOld(dir, keepPlugins); err != nil {
			return err
		}
	}
	return nil
}

// removeOld removes a folder that was not changed for so long.
func removeOld(dir string, keep time.Duration) error {
	info, err := os.Lstat(dir)
	if err != nil || time.Since(info.ModTime()) < keep {
		return err
	}
	return removeTree(dir)
}
