// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"slices"
	"testing"
)

// Backup copies the data folder of etcd while nothing of the cluster runs. The func puts
// the copy back the same way, as often as it is called: then the cluster knows nothing of
// what happened since, while all that is outside of it does.
func (c *Cluster) Backup(t testing.TB) (restore func()) {
	t.Helper()
	backup := t.TempDir()
	replace := func(to, from string) {
		t.Helper()
		if err := c.paused(func() error {
			if err := os.RemoveAll(to); err != nil {
				return err
			}
			return os.CopyFS(to, os.DirFS(from))
		}); err != nil {
			t.Fatal(err)
		}
	}
	replace(backup, c.data())
	return func() { t.Helper(); replace(c.data(), backup) }
}

// paused does something while nothing of the cluster runs, and starts all of it again.
func (c *Cluster) paused(do func() error) error {
	for _, p := range slices.Backward(c.running) {
		p.kill()
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
