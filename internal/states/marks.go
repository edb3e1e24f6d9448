// SPDX-License-Identifier: Apache-2.0

package states

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Timing of the survey of all repositories.
const (
	surveyEvery = 10 * time.Minute // between two rounds, while marks are requested
	surveyAgain = 10 * time.Second // after a round that failed
	surveyFirst = 60               // repositories of a round that are read without a pause
	surveyEach  = time.Second / 3  // pause before each of the others
	surveyTime  = 2 * time.Hour    // for a round
	surveyOne   = 30 * time.Second // for a repository
)

// Marks are the marks of a repository, which describe it as a whole.
type Marks struct {
	State      string // name of the state; "": the queue repository, in which servers lock their work
	Repository string // without host
	Replica    *format.ReplicaMark
	Verdict    *format.Verdict // of okara admin doctor; nil: the registry was not examined
}

// survey reads all repositories' marks, a tag list each: no list shows them.
type survey struct {
	mu    sync.Mutex // guards the fields below
	marks map[string]Marks
	round chan struct{} // closed when the running round ends; nil: none runs
	next  time.Time     // when the next round may begin
	whole bool          // a round was completed
}

// Marked returns the repositories with a mark, by name, as of the last round, made in the
// background. The first is awaited as long as ctx allows; whole is false until it is done.
func (s *States) Marked(ctx context.Context) (marks []Marks, whole bool) {
	v := &s.survey
	v.mu.Lock()
	if v.round == nil && !s.o.Now().Before(v.next) {
		v.round = make(chan struct{})
		go s.surveyOnce(context.WithoutCancel(ctx), v.round)
	}
	round := v.round
	known := v.whole
	v.mu.Unlock()
	if round != nil && !known {
		select {
		case <-round:
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range v.marks {
		marks = append(marks, m)
	}
	slices.SortFunc(marks, func(a, b Marks) int { return strings.Compare(a.State, b.State) })
	return marks, v.whole
}

// surveyOnce runs one round.
func (s *States) surveyOnce(ctx context.Context, done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	names, err := s.Names(ctx)
	all := append([]string{""}, names...)
	if err == nil {
		var g errgroup.Group
		g.SetLimit(parallel)
		for i, name := range all {
			if i >= surveyFirst {
				t := time.NewTimer(surveyEach)
				select {
				case <-t.C:
				case <-ctx.Done():
					t.Stop()
				}
			}
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error { s.readMarks(ctx, name); return nil })
		}
		err = errors.Join(g.Wait(), ctx.Err())
	}
	v := &s.survey
	v.mu.Lock()
	defer v.mu.Unlock()
	v.round = nil
	v.next = s.o.Now().Add(surveyEvery)
	if err != nil {
		v.next = s.o.Now().Add(surveyAgain)
		s.o.Logger.Warn("the marks of states were not read", "error", err)
		return
	}
	v.whole = true
	for name := range v.marks {
		if !slices.Contains(all, name) {
			delete(v.marks, name)
		}
	}
}

// readMarks reads the marks of one repository. If that fails, the earlier marks stay.
func (s *States) readMarks(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, surveyOne)
	defer cancel()
	m, err := s.marksOf(ctx, name)
	if err != nil {
		s.o.Logger.Warn("the marks of a state were not read", "state", name, "error", err)
		return
	}
	s.survey.mu.Lock()
	defer s.survey.mu.Unlock()
	if m.Replica == nil && m.Verdict == nil {
		delete(s.survey.marks, name)
		return
	}
	s.survey.marks[name] = m
}

func (s *States) marksOf(ctx context.Context, name string) (Marks, error) {
	store := statebackend.New(s.queue, statebackend.Options{Logger: s.o.Logger})
	if name != "" {
		var err error
		if store, err = s.storeByName(name); err != nil {
			return Marks{}, err
		}
	}
	m := Marks{State: name, Repository: store.Repo().Name()}
	l, err := store.List(ctx)
	if err != nil {
		return m, err
	}
	v, err := l.Verdict(ctx)
	if err = dropUnreadable(err); err != nil {
		return m, err
	}
	if v.Locking != "" {
		m.Verdict = &v
	}
	m.Replica, err = replicaOf(ctx, store, l)
	return m, dropUnreadable(err)
}

// dropUnreadable drops the error for a mark that is gone or another client's.
func dropUnreadable(err error) error {
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) {
		return nil
	}
	return err
}

// replicaOf reads the mark of a copy; nil if the repository is not, or no longer, a copy.
func replicaOf(ctx context.Context, store *statebackend.Store, l *statebackend.Listing) (*format.ReplicaMark, error) {
	if !l.Replica() {
		return nil, nil
	}
	mark, err := store.Replicas().Mark(ctx)
	if errors.Is(err, oci.ErrNotFound) || err == nil && mark.Promoted {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &mark, nil
}

// Original returns the state that a copy was made of, if in this registry, also known as hosts.
func (s *States) Original(mark format.ReplicaMark, hosts ...string) (name string, ok bool) {
	host, repository, _ := strings.Cut(mark.Source, "/")
	if host != s.o.Client.Host() && !slices.Contains(hosts, host) {
		return "", false
	}
	it, ok := s.o.Layout.Parse(repository)
	return it.State, ok && it.Kind == addr.KindState
}

// Numbers returns a workspace's versions, newest first, or none.
func (s *States) Numbers(ctx context.Context, name, workspace string) ([]int64, error) {
	l, err := s.listVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.Numbers(workspace), nil
}
