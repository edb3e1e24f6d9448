// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// chain is the list of a ledger's repositories, the last one current: some registries never delete.
type chain struct {
	l *Ledger

	mu     sync.Mutex // guards the fields below
	number int        // of the current repository
	stores map[int]*statebackend.Store
	leader string // address of the leader, of a portal
	failed error
	asked  time.Time

	asking chan struct{} // capacity 1: held while asking for that address
}

// store returns the one store of a repository, which knows what this process holds and saw.
func (c *chain) store(number int) (*statebackend.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stores[number]; s != nil {
		return s, nil
	}
	s, err := c.newStore(number)
	if err == nil {
		c.stores[number] = s
	}
	return s, err
}

func (c *chain) newStore(number int) (*statebackend.Store, error) {
	repo, err := c.l.o.Repo(number)
	if err != nil {
		return nil, err
	}
	o := &c.l.o
	return statebackend.New(repo, statebackend.Options{
		Sealer: o.Sealer, LockTTL: lease, StrictReads: true, MaxState: maxDocument,
		Tool: o.Tool, Logger: o.Logger, Now: o.Now, Uptime: o.Uptime, NewID: o.NewID,
		Claim: func(tag string, info statebackend.LockInfo) statebackend.LockInfo {
			info.Path = o.sign(repo.Name(), tag)
			return info
		},
	}), nil
}

// currentNumber returns the number of the current repository, as far as known.
func (c *chain) currentNumber() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

func (c *chain) advance(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number = max(c.number, number)
}

// findCurrent finds the current repository from the hint, if the repository before confirms it.
func (c *chain) findCurrent(ctx context.Context) {
	n := c.hintedNumber(ctx)
	if n < 3 { // the first repository itself names the second one
		return
	}
	s, err := c.store(n - 1)
	if err != nil {
		return
	}
	if p, _, err := readNewestPage(ctx, s); err == nil && p.Moved != nil && p.Moved.Number == n {
		c.advance(n - 1)
	}
}

// hintedNumber returns the number in the tag of the first repository; 1 without the tag.
func (c *chain) hintedNumber(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := c.store(1)
	if err != nil {
		return 1
	}
	m, err := s.Repo().Fetch(ctx, tagMark)
	if err != nil {
		return 1
	}
	number, err := parseMark(m)
	if err != nil {
		return 1
	}
	return number
}

// readNewestPage reads the newest page of a repository, without a document before the first commit.
func readNewestPage(ctx context.Context, s *statebackend.Store) (page, statebackend.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return openPage(s.Get(ctx, workspace))
}

// openPage decodes what a store or a lock returned.
func openPage(b []byte, v statebackend.Version, err error) (page, statebackend.Version, error) {
	if err != nil {
		return page{}, v, oci.IgnoreNotFound(err)
	}
	p, err := decodePage(b)
	return p, v, err
}

// goOn makes the repository that a page names current, after checking its content.
func (c *chain) goOn(ctx context.Context, m *moved) error {
	s, err := c.store(m.Number)
	if err != nil {
		return err
	}
	b, _, err := s.GetVersion(ctx, workspace, m.Version)
	if err == nil && digestOf(b) != m.Digest {
		err = fmt.Errorf("version %d is not the document from which the ledger continued: %w", m.Version, oci.ErrCorrupt)
	}
	if _, gone := errors.AsType[*statebackend.VersionError](err); gone {
		if v, cerr := s.Current(ctx, workspace); cerr == nil && v.N > m.Version {
			err = nil // the version was pruned
		}
	}
	if err != nil {
		return fmt.Errorf("continuing in %s: %w", s.Repo(), err)
	}
	c.advance(m.Number)
	return nil
}

// addressOf returns the address in a claim of the current repository, if a replica signed it.
func (c *chain) addressOf(tag string, held statebackend.LockInfo) string {
	s, err := c.store(c.currentNumber())
	if err != nil {
		return ""
	}
	return c.l.o.verify(s.Repo().Name(), tag, held)
}

// address reads the leader's address, at most every two seconds, one caller for all.
func (c *chain) address(ctx context.Context) (string, error) {
	if address, failed, fresh := c.lastAnswer(); fresh {
		return address, failed
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if address, failed, fresh := c.lastAnswer(); fresh { // while we waited
		return address, failed
	}
	address, err := c.askLeader(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = address
	c.failed = err
	c.asked = c.l.o.Now()
	return address, err
}

// lastAnswer returns the last answer; fresh reports whether it is still valid.
func (c *chain) lastAnswer() (address string, failed error, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, c.failed, !c.asked.IsZero() && c.l.o.Now().Sub(c.asked) < pollEvery
}

// askLeader looks in the repository of the hint, unchecked: the address found there is signed.
func (c *chain) askLeader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	s, err := c.newStore(c.hintedNumber(ctx))
	if err != nil {
		return "", err
	}
	held, err := s.Locks(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range held {
		if address := c.l.o.verify(s.Repo().Name(), h.Tag, h.Info); address != "" {
			return address, nil
		}
	}
	return "", errors.New("the ledger has no leader with a trusted address")
}
