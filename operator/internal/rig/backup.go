// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// Backup copies etcd's data while all is stopped, and returns how to restore that: the cluster
// forgets, the outside does not.
func (c *Cluster) Backup(t testing.TB) (restore func()) {
	t.Helper()
	backup := t.TempDir()
	replace := func(to, from string) {
		t.Helper()
		must.Succeed(t, c.whilePaused(func() error {
			if err := os.RemoveAll(to); err != nil {
				return err
			}
			return os.CopyFS(to, os.DirFS(from))
		}))
	}
	replace(backup, c.etcdFolder())
	return func() { t.Helper(); replace(c.etcdFolder(), backup) }
}

// whilePaused calls do while all programs of the cluster are stopped, and starts them again.
func (c *Cluster) whilePaused(do func() error) error {
	for _, p := range slices.Backward(c.running) {
		p.Kill()
	}
	if err := do(); err != nil {
		return err
	}
	for _, p := range c.running {
		if err := p.start(); err != nil {
			return err
		}
		if err := p.ready(p); err != nil {
			return err
		}
	}
	return nil
}
