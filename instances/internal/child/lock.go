// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// takeLock takes the lock of the state for the whole run. A lock of a lost attempt is
// released; for any other holder it waits.
func takeLock(ctx context.Context, c *child) error {
	spec := c.Order.Spec
	info := statebackend.NewLockInfo(operation, c.UserAgent)
	info.ID = run.LockID(spec.Ref)
	info.Info = fmt.Sprintf("%s, attempt %d; %s", spec.Run, spec.Ref.Attempt, info.Info)
	info.Path = spec.Repository
	begin := time.Now()
	for pause := min(time.Second, c.pace.pause); ; pause = min(2*pause, c.pace.pause) {
		if err := c.stop.err(); err != nil {
			return err
		}
		var err error
		c.lock, err = retryValue(ctx, c, func() (*statebackend.Lock, error) { return c.store.Lock(ctx, spec.Workspace, info) })
		held, ok := errors.AsType[*statebackend.LockedError](err)
		if !ok {
			return err
		}
		abandoned := held.Unreadable && format.ClaimOf(held.Held.ID, spec.Took)
		if spec.Took != "" && (abandoned || held.Held.ID == format.ShownID(spec.Took)) {
			c.lost = held.Held.Created
			err := c.retryPersistently(ctx, func() error { return c.store.ForceUnlock(ctx, spec.Workspace, spec.Took) })
			if err == nil {
				continue
			}
			if !errors.Is(err, oci.ErrNotFound) {
				return fmt.Errorf("taking over the lock of the previous attempt: %w", err)
			}
			// Another process released it, and a list may show it for some time.
		}
		patience := c.pace.held
		if held.Unreadable { // the store releases it after a minute
			patience *= 2
		}
		if time.Since(begin)+pause > patience {
			return &stopError{lifecycle.Held, held.Error() + "; to remove it: " + states.UnlockCommand(spec.Repository, spec.Workspace, held.Held.ID)}
		}
		if err := text.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

func writeNote(ctx context.Context, c *child, module string) error {
	if !c.Order.Changes() {
		return nil
	}
	n := sandbox.Note{LockID: run.LockID(c.Order.Spec.Ref), Module: module}
	if !c.isRemote() {
		heads, err := findHeads(ctx, c)
		if err != nil {
			return err
		}
		if len(heads) > 0 {
			n.Base = heads[0].N
		}
	}
	return sandbox.WriteNote(c.Order.Scratch, n)
}

// storeLeftovers stores the state that a killed attempt left here, if it follows the current one;
// else the log says where it is. An error means that the registry does not answer.
func storeLeftovers(ctx context.Context, c *child) error {
	parent := filepath.Dir(c.Order.Scratch)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("looking for what earlier attempts left: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if !e.IsDir() || dir == c.Order.Scratch {
			continue
		}
		file, err := storeLeftover(ctx, c, dir)
		if err == nil {
			continue
		}
		host, _ := os.Hostname() // without it the line still names the file
		c.log.logLine("okara: %s may hold a newer state in %s: %v\nhint: okara state push %s %s", host, file, err, c.Order.Spec.Repository, file)
		if oci.Passing(err) {
			return fmt.Errorf("storing what an earlier attempt left: %w", err)
		}
	}
	return nil
}

// errNewer reports that a newer state than the leftover exists.
var errNewer = errors.New("another run has stored a state since")

func storeLeftover(ctx context.Context, c *child, dir string) (file string, err error) {
	left, note, err := sandbox.OpenErrored(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return dir, err
	}
	defer func() { err = errors.Join(err, left.Close()) }()
	heads, err := findHeads(ctx, c)
	if err != nil {
		return left.Name, err
	}
	last := statebackend.Version{}
	if len(heads) > 0 {
		last = heads[len(heads)-1]
	}
	fits := last.N == 0 && note.Base == 0 || last.LockID == note.LockID
	for _, v := range heads {
		fits = fits || v.N == note.Base
	}
	if !fits {
		return left.Name, errNewer
	}
	return left.Name, storeErrored(ctx, c, left)
}

// storeErrored stores a state that the tool could not store, and removes the file.
func storeErrored(ctx context.Context, c *child, left *sandbox.Errored) error {
	state, err := left.Read(sandbox.MaxErrored)
	if err != nil {
		return err
	}
	if err := statebackend.CheckState(state); err != nil {
		return err
	}
	var head statebackend.Version
	var same bool
	err = c.retryPersistently(ctx, func() (err error) {
		head, same, err = c.lock.Succeeds(ctx, state)
		return err
	})
	if err != nil {
		return err
	}
	if !same {
		if record := usage.RecordPush(c.Getenv); record != nil { // the folder that init filled may be gone
			ctx = statebackend.WithUsage(ctx, record)
		}
		if head, err = s3facade.Persist(ctx, c.lock, state, c.pace.persist); err != nil {
			return err
		}
		c.wasStored(head, state)
	}
	c.log.logLine("okara: the state that the tool could not store is now version %d", head.N)
	return left.Remove()
}

// storeOwnErrored does the same for this attempt, after its tool has ended.
func storeOwnErrored(ctx context.Context, c *child) {
	left, _, err := sandbox.OpenErrored(c.Order.Scratch)
	if err == nil {
		err = errors.Join(storeErrored(ctx, c, left), left.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		host, _ := os.Hostname() // as above
		file := c.Order.Scratch
		if left != nil {
			file = left.Name
		}
		c.recordFailure(fmt.Errorf("host %s has the newest state in %s: %w\nhint: okara state push %s %s", host, file, err, c.Order.Spec.Repository, file))
	}
}
