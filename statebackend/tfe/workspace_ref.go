// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

// apart is the name of a workspace in a repository of its own.
const apart = "default"

// located says where a workspace is stored, according to a list of its organization.
type located struct {
	workspaceRef
	records *statebackend.Store   // has the record
	list    *statebackend.Listing // of records
	record  *statebackend.Record  // the newest, also if deleted; nil: none
	book    *variables.Listing    // what decides about runs, once the record is settled

	split     bool                // the state is in a separate repository
	name      string              // the NAME of the state
	store     *statebackend.Store // has the state
	workspace string              // the name of the workspace in store
}

type stores struct {
	gate *gate
	open func(ctx context.Context, name string) (*statebackend.Store, error) // Options.Open
}

// locate finds where a workspace is stored, if it exists, with one request per repository to list.
func (s *stores) locate(ctx context.Context, p workspaceRef) (located, error) {
	records, err := s.openNamed(ctx, p.organization)
	if err != nil {
		return located{}, err
	}
	list, err := records.List(ctx)
	if err != nil {
		return located{}, err
	}
	return s.locateIn(ctx, p, records, list)
}

func (s *stores) locateIn(ctx context.Context, p workspaceRef, records *statebackend.Store, list *statebackend.Listing) (located, error) {
	at := located{workspaceRef: p, records: records, list: list, name: p.organization, store: records, workspace: p.workspace}
	var err error
	if at.record, err = list.Record(ctx, p.workspace); err != nil {
		return located{}, err
	}
	if reserved, _ := s.gate.split(p.organization); !reserved {
		if r := at.liveRecord(); r != nil && r.State == format.StateSplit { // it must not look like a workspace without a state
			return located{}, newRefusal(http.StatusUnprocessableEntity, "the state is elsewhere", "the state of workspace %q is in a separate repository; set split in the organization block %q, to true or false", p, p.organization)
		}
		return at, nil
	}
	if err := s.findSplit(ctx, &at); err != nil {
		return located{}, err
	}
	return at, nil
}

// findSplit finds out, by its record or else its state, whether a workspace has its own repository.
func (s *stores) findSplit(ctx context.Context, at *located) error {
	own := at.organization + "." + at.workspaceRef.workspace
	switch {
	case at.record != nil:
		at.split = at.record.State == format.StateSplit
	case !validOrganization(own):
		return nil
	default:
		here, err := at.list.Exists(ctx, at.workspaceRef.workspace)
		if err != nil {
			return err
		}
		at.split = !here
	}
	if !at.split {
		return nil
	}
	if !validOrganization(own) { // the record is forged
		return fmt.Errorf("the record of workspace %q has no repository: %w", at.workspaceRef, oci.ErrCorrupt)
	}
	var err error
	at.name = own
	at.workspace = apart
	at.store, err = s.openNamed(ctx, own)
	return err
}

func (s *stores) openNamed(ctx context.Context, name string) (*statebackend.Store, error) {
	store, err := s.open(ctx, name)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, errAbsent("a state cannot have the name %q", name)
	}
	return store, err
}

// states lists the repository with the state; in the same repository it is the known list.
func (at located) states(ctx context.Context) (*statebackend.Listing, error) {
	if !at.split {
		return at.list, nil
	}
	return at.store.List(ctx)
}

// isPresent reports whether there is a record, or a state that came through another API.
func (at located) isPresent(ctx context.Context) (bool, error) {
	if at.record != nil && !at.record.Deleted {
		return true, nil
	}
	states, err := at.states(ctx)
	if err != nil {
		return false, err
	}
	return states.Exists(ctx, at.workspace)
}

func (s *stores) openWorkspace(ctx context.Context, p workspaceRef) (located, error) {
	at, err := s.locate(ctx, p)
	if err != nil {
		return located{}, err
	}
	if err := at.mustExist(ctx); err != nil {
		return located{}, err
	}
	return at, nil
}

func (at located) mustExist(ctx context.Context) error {
	ok, err := at.isPresent(ctx)
	if err == nil && !ok {
		err = noWorkspace(at.workspaceRef)
	}
	return err
}

func noWorkspace(p workspaceRef) error {
	return errAbsent("organization %q has no workspace %q", p.organization, p.workspace)
}

// sinceTime returns when the workspace was created, or deleted.
func sinceTime(r *statebackend.Record) time.Time {
	switch {
	case r == nil:
		return time.Time{}
	case r.Deleted:
		return r.Updated
	}
	return r.Created
}

// latestStart returns when a workspace without a record was created at the latest: at its deletion
// or oldest version. At its first record, it would look new to commands that read it before.
func (at located) latestStart(ctx context.Context) (time.Time, error) {
	switch {
	case at.liveRecord() != nil:
		return time.Time{}, nil
	case at.record != nil:
		return at.record.Updated, nil
	}
	states, err := at.states(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var v statebackend.Version
	if numbers := states.Numbers(at.workspace); len(numbers) > 0 {
		v, err = at.store.Describe(ctx, at.workspace, numbers[len(numbers)-1])
	} else {
		v, err = at.store.View(ctx, at.workspace, func([]byte, statebackend.Version) error { return nil })
	}
	if errors.Is(err, oci.ErrNotFound) { // pruned since the list
		return time.Time{}, nil
	}
	return v.Created, err
}

// notOlder refuses a command from before the deletion or recreation of what it has read.
func notOlder(h commandID, p workspaceRef, r *statebackend.Record) error {
	// A command ID has whole seconds.
	if h == "" || !h.createdAt().Before(sinceTime(r).Truncate(time.Second)) {
		return nil
	}
	return conflictError("workspace was deleted", "workspace %q was deleted or recreated after this command started: run it again", p)
}

// commandIDFor returns a command ID as old as a list with the workspace, or as the record if that
// is newer: created meanwhile, or by a replica whose clock is ahead.
func (s workspaceDocs) commandIDFor(r *statebackend.Record, listed time.Time) commandID {
	if made := sinceTime(r); made.After(listed) && made.Before(s.gate.now().Add(commandIDAhead)) {
		listed = made
	}
	return newCommandID(listed)
}

// subjectOf identifies a caller across all issuers.
func subjectOf(c access.Caller) string { return c.Mode + "\x00" + c.Issuer + "\x00" + c.Subject }

func nameOf(c access.Caller) string {
	if c.Subject == "" {
		return c.Mode
	}
	return printableText(c.Subject)
}

// authorOf is nameOf with the issuer, since two issuers may have one subject.
func authorOf(c access.Caller) string {
	if c.Issuer == "" {
		return nameOf(c)
	}
	return printableText(fmt.Sprintf("%s of %s", nameOf(c), c.Issuer))
}

// finder finds the workspaces of short ids: issued or found before, or in matching organizations.
type finder struct {
	gate    *gate
	stores  *stores
	list    func(context.Context, access.Grant) ([]string, error) // Options.Organizations
	refresh func()                                                // Options.Renew

	mu    sync.Mutex              // guards the fields below
	refs  map[string]workspaceRef // by short id without the prefix
	names map[string]bool         // organizations
	// renewed is when the list of organizations was last renewed.
	renewed time.Time
}

func (s *gate) parseWorkspace(r *http.Request, id string) (workspaceRef, commandID, error) {
	if rest, ok := cutID(id, "ws-"); ok && isShort(rest) {
		p, err := s.finder.workspace(r, rest)
		return p, "", err
	}
	return parseWorkspaceID(id, s.now())
}

func (s *gate) namedWorkspace(r *http.Request) (workspaceRef, commandID, error) {
	if id := r.PathValue("id"); id != "" {
		return s.parseWorkspace(r, id)
	}
	p := workspaceRef{r.PathValue("organization"), r.PathValue("workspace")}
	if p.organization == "" || p.workspace == "" {
		return p, "", errAbsent("no workspace given")
	}
	return p, "", nil
}

const maxFound = 10_000

func (f *finder) issueID(p workspaceRef) string {
	id := p.shortID()
	f.keepID(strings.TrimPrefix(id, "ws-"), p)
	return id
}

func (f *finder) keepID(id string, p workspaceRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refs) >= maxFound {
		clear(f.refs)
		clear(f.names)
	}
	f.refs[id] = p
	f.names[p.organization] = true
}

// knowOrganization remembers an organization for which an id was issued.
func (f *finder) knowOrganization(organization string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[organization] = true
}

// workspace returns the workspace of a short id, or not found if the caller may not read it. An
// unknown id is looked for where the caller may read something, then in new organizations.
func (f *finder) workspace(r *http.Request, id string) (workspaceRef, error) {
	g, err := f.gate.ask(r, rights.Read, "", "")
	if err != nil {
		return workspaceRef{}, err
	}
	f.mu.Lock()
	p, ok := f.refs[id]
	f.mu.Unlock()
	if ok {
		return p, f.checkVisible(g, p)
	}
	r, cancel := limitTime(r)
	defer cancel()
	var found []workspaceRef
	if err := f.eachOrganization(r.Context(), g, id[:lettersOfOrganization], func(name string) error {
		all, err := f.stores.readableWorkspaces(r.Context(), name, g)
		for _, w := range all {
			if p := (workspaceRef{name, w.Name}); strings.TrimPrefix(p.shortID(), "ws-") == id {
				found = append(found, p)
			}
		}
		return err
	}, func() bool { return len(found) > 0 }); err != nil {
		return workspaceRef{}, err
	}
	switch len(found) {
	case 0:
		return workspaceRef{}, errNoID()
	case 1:
		f.keepID(id, found[0])
		return found[0], nil
	}
	return workspaceRef{}, conflictError("two workspaces have this ID", "workspaces %q and %q have the same ID\nhint: specify organization and name instead", found[0], found[1])
}

// checkVisible refuses a workspace that the caller may not read, as if it did not exist.
func (f *finder) checkVisible(g access.Grant, p workspaceRef) error {
	if !f.gate.mayAct(g, rights.Read, p.organization, p.workspace) {
		return errNoID()
	}
	return nil
}

// renewTime is the minimum time between two renewals of the list of organizations.
const renewTime = time.Second

// eachOrganization calls do for the organizations that match an id's letters and in which the
// caller may read something: known ones, then new ones, until enough is true.
func (f *finder) eachOrganization(ctx context.Context, g access.Grant, letters string, do func(name string) error, enough func() bool) error {
	began := f.gate.now()
	done := map[string]bool{}
	for again := false; ; again = true {
		names, err := f.list(ctx, g)
		if err != nil {
			return err
		}
		f.mu.Lock()
		names = slices.AppendSeq(names, maps.Keys(f.names))
		f.mu.Unlock()
		for _, name := range names {
			if done[name] || organizationLetters(name) != letters || !f.gate.mayAct(g, rights.Read, name, "") {
				continue
			}
			done[name] = true
			if err := do(name); err != nil {
				return err
			}
		}
		if again || enough() {
			return nil
		}
		if err := f.renew(ctx, began); err != nil {
			return err
		}
	}
}

// renew makes sure that the list of organizations is newer than began. Frequent callers wait.
func (f *finder) renew(ctx context.Context, began time.Time) error {
	for {
		f.mu.Lock()
		last := f.renewed
		now := f.gate.now()
		wait := renewTime - now.Sub(last)
		if wait <= 0 {
			f.renewed = now
		}
		f.mu.Unlock()
		switch {
		case last.After(began):
			return nil
		case wait <= 0:
			f.refresh()
			return nil
		}
		if err := text.Wait(ctx, wait); err != nil {
			return err
		}
	}
}
