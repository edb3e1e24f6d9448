// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
)

// Limits of what a caller may submit.
const (
	maxName   = 64      // characters
	maxClaims = 2 << 10 // bytes of all claims
)

// applyTo implements rows 1 and 8: it claims a member of the pool, or makes an
// instance. An owner who may have only one instance and has it gets that one.
func (e Create) applyTo(tx *tx) (Answer, error) {
	if err := checkCreate(tx, e); err != nil {
		return Answer{}, err
	}
	if r := findOnlyInstance(tx, e); r != nil {
		return Answer{Status: 200, Record: r}, e.checkSame(r)
	}
	member := findMember(tx, e)
	if err := checkLaunch(tx, e, member); err != nil {
		return Answer{}, err
	}
	if member != nil {
		return claimMember(tx, member, e), nil
	}
	return makeInstance(tx, tx.newID(), e), nil
}

// checkLaunch refuses a launch, in which a member of the pool is claimed or an instance made.
func checkLaunch(tx *tx, e Create, member *Record) error {
	if err := checkEnabled(tx, e.Template); err != nil {
		return err
	}
	if err := checkQuotas(tx, e.Template, e.Owner, nil); err != nil && !e.Forced {
		return err
	}
	switch p := e.Template.Pool; {
	case member != nil && member.Phase != Available:
		return newRefusal(ErrPhase, "instance %s is %s and cannot be claimed", member.ID, member.Phase)
	case member != nil:
		return nil
	case p != nil && p.WhenEmpty == template.PoolRefuse:
		return newRefusal(ErrPoolEmpty, "the pool of %s is empty", e.Template.Name)
	}
	if err := checkTemplateLimit(tx, e.Template); err != nil && !e.Forced {
		return err
	}
	return checkRoom(tx)
}

// checkSame refuses an existing instance that has other values than those that the caller names.
func (e Create) checkSame(r *Record) error {
	other := ""
	for _, name := range e.Given {
		if !bytes.Equal(r.Parameters[name], e.Parameters[name]) {
			other = "parameter " + name
		}
	}
	switch {
	case other != "":
	case e.Name != "" && e.Name != r.Name:
		other = "name"
	case e.Version != "" && e.Version != r.Source.Version:
		other = "version"
	case e.TTL > 0 && e.TTL != r.TTL && r.Extends == 0:
		other = "lifetime"
	default:
		return nil
	}
	return newRefusal(ErrExists, "%s is the only instance of %s that its owner may have, and its %s is different: update, extend or destroy it", r.ID, e.Template.Name, other)
}

func checkCreate(tx *tx, e Create) error {
	t := e.Template
	o := e.Owner
	if t == nil || e.Digest == "" || e.Source.Digest == "" {
		return &template.FieldError{Path: "/template", Text: "no module to run"}
	}
	if IsWorkspaceTemplate(t.Name) {
		return &template.FieldError{Path: "/template", Text: "it cannot be launched: it belongs to the workspaces of an organization"}
	}
	if e.Forced && !tx.command.Actor.Admin {
		return newRefusal(ErrDenied, "only an admin can exceed limits")
	}
	if !t.Admits(o) {
		return &template.FieldError{Path: "/owner", Text: "the template does not allow this owner"}
	}
	if err := checkName(e.Name); err != nil {
		return err
	}
	if err := checkSize("/parameters", sizeOf(e.Parameters), template.MaxParameters); err != nil {
		return err
	}
	if err := checkSize("/claims", sizeOf(e.Claims), maxClaims); err != nil {
		return err
	}
	return checkTTL(tx, t, e.TTL)
}

func checkName(name string) error {
	if utf8.RuneCountInString(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return &template.FieldError{Path: "/name", Text: "a name can have up to 64 characters, and no control characters"}
	}
	return nil
}

func checkSize(path string, size, limit int) error {
	if size > limit {
		return &template.FieldError{Path: path, Text: "too large: at most " + text.Size(int64(limit)) + " in all"}
	}
	return nil
}

func sizeOf[V ~string | ~[]byte](values map[string]V) int {
	n := 0
	for name, v := range values {
		n += len(name) + len(v)
	}
	return n
}

// findOnlyInstance returns the instance of an owner who may have, or asks for, no other.
func findOnlyInstance(tx *tx, e Create) *Record {
	if (e.Template.PerOwner != 1 || e.Forced) && !e.One {
		return nil
	}
	var newest *Record
	for _, r := range tx.doc.Records {
		if !r.Phase.Live() || !r.Counts() || r.Template != e.Template.Name || !r.Owner.Same(e.Owner) {
			continue
		}
		if newest == nil || r.Since.After(newest.Since) || r.Since.Equal(newest.Since) && r.ID < newest.ID {
			newest = r
		}
	}
	return newest
}

// checkEnabled refuses a template that is switched off, or that an admin paused.
func checkEnabled(tx *tx, t *template.Template) error {
	if !t.Enabled {
		return newRefusal(ErrPaused, "template %s is disabled", t.Name)
	}
	if p := tx.doc.Pools[t.Name]; p != nil && p.By != "" {
		return newRefusal(ErrPaused, "template %s is paused: %s", t.Name, p.Paused)
	}
	return nil
}

// findMember returns the pool member to claim: the oldest of the current revision, else the oldest
// of all, since old ones stay until their successors exist.
func findMember(tx *tx, e Create) *Record {
	if e.Template.Pool == nil {
		return nil
	}
	revision := revisionOf(e.Template, e.Source)
	members := tx.doc.poolMembers(e.Template.Name, func(r *Record) bool {
		_, over := tx.doc.firstPending(r, tx.now)
		return r.Phase == Available && !over
	})
	if len(members) == 0 {
		return nil
	}
	if i := slices.IndexFunc(members, func(r *Record) bool { return tx.doc.revision(r) == revision }); i >= 0 {
		return members[i]
	}
	return members[0]
}

// claimMember gives a pool member to an owner. It runs nothing.
func claimMember(tx *tx, r *Record, e Create) Answer {
	r = tx.edit(r)
	r.Phase = Ready
	r.Reason = ""
	r.ClaimedAt = tx.now
	r.Since = tx.now
	r.TTL = lifetimeOf(e)
	assignOwner(tx, r, e)
	tx.recordEvent(r, "claimed", e.Template.Name)
	setEndAfter(tx, r, r.TTL)
	beginSchedule(tx, r, false)
	addNotice(tx, r, noticeReady)
	return Answer{Status: 201, Record: r}
}

func assignOwner(tx *tx, r *Record, e Create) {
	r.Name = e.Name
	r.Owner = e.Owner
	r.CreatedBy = tx.storedActor()
	r.Owner.Label = clipForeign(r.Owner.Label, 128)
	r.Claims = maps.Clone(e.Claims)
	r.Forced = e.Forced
	r.Key = tx.command.Key
}

func (tx *tx) storedActor() Actor {
	a := tx.command.Actor
	return Actor{Issuer: a.Issuer, Subject: a.Subject, Label: clipForeign(a.Label, 128)}
}

// makeInstance adds an instance, whose first run waits in the queue or for approval.
func makeInstance(tx *tx, id string, e Create) Answer {
	r := addRecord(tx, id, e.Template, e.Digest, e.Source)
	assignOwner(tx, r, e)
	r.Parameters = maps.Clone(e.Parameters)
	r.Sensitive = e.Sensitive
	r.TTL = lifetimeOf(e)
	setEndAfter(tx, r, r.TTL+runTime(e.Template))
	tx.recordEvent(r, "created", e.Template.Name)
	if e.Template.Approval == template.ApprovalRequest {
		r.Phase = Requested
		r.Pending = &Pending{By: r.CreatedBy, At: tx.now, Why: clipForeign(e.Why, maxDetail), Salt: tx.newNonce()}
		addNotice(tx, r, noticeApproval)
		return Answer{Status: 202, Record: r}
	}
	run := newRun(tx, r, RunApply)
	run.Why = clipForeign(e.Why, maxDetail)
	queueRun(tx, r, run)
	return Answer{Status: 201, Record: r}
}

// addRecord puts a record without an owner into the document.
func addRecord(tx *tx, id string, t *template.Template, digest string, s template.Source) *Record {
	tx.keepTemplate(digest, t)
	return tx.putRecord(&Record{
		ID: id, Template: t.Name, Snapshot: digest, Source: s,
		Phase: Provisioning, CreatedAt: tx.now, Since: tx.now,
	})
}

// applyTo restores a record that a ledger lost. Its resources exist: no quota refuses it.
func (e Adopt) applyTo(tx *tx) (Answer, error) {
	r := e.Record.clone()
	if err := checkAdopt(tx, r, e.Template); err != nil {
		return Answer{}, err
	}
	if e.Template != nil {
		tx.keepTemplate(r.Snapshot, e.Template)
	}
	r.Applied = true
	r.Untouched = false
	r.Forced = true
	r.Run = nil
	r.Then = nil
	r.Pooled = false
	r.Kept = false
	r.Archived = false
	r.Removing = false
	r.Empty = false
	r.Unsure = r.Phase == Failed // it may have stored nothing
	r.Conditions = nil
	r.Notices = nil
	r.FinishedAt = time.Time{}
	r.Key = tx.command.Key
	r.Pending = nil
	r.Declined = ""
	r.Offer = nil
	if r.Since.IsZero() {
		r.Since = tx.now
	}
	r.Runs = r.Runs[:min(len(r.Runs), maxRuns)]
	r = tx.putRecord(r)
	beginSchedule(tx, r, r.Switch.isOff())
	tx.recordEvent(r, "adopted", "")
	if t := tx.doc.template(r.Snapshot); t.TTL != nil && r.ExpiresAt.IsZero() {
		r.TTL = t.TTL.Default
		setEndAfter(tx, r, r.TTL)
	} else if t.TTL != nil && r.ExpiresAt.Before(tx.now.Add(template.MinTTL)) {
		setEnd(tx, r, tx.now.Add(template.MinTTL)) // an admin can look at it before it ends
	}
	return Answer{Status: 201, Record: r}, nil
}

func checkAdopt(tx *tx, r *Record, t *template.Template) error {
	switch {
	case !tx.command.Actor.Admin:
		return newRefusal(ErrDenied, "only an admin can adopt an instance")
	case !isValidID(r.ID):
		return &template.FieldError{Path: "/record/id", Text: "not an instance ID"}
	case r.Workspace != "" || IsWorkspaceTemplate(r.Template):
		return &template.FieldError{Path: "/record/template", Text: "only instances can be adopted"}
	case tx.doc.Records[r.ID] != nil:
		return newRefusal(ErrPhase, "instance %s already exists", r.ID)
	case t == nil && tx.doc.Templates[r.Snapshot] == nil:
		return &template.FieldError{Path: "/record/snapshot", Text: "its template is unknown"}
	case r.Phase != Ready && r.Phase != Failed && r.Phase != DestroyFailed:
		return &template.FieldError{Path: "/record/phase", Text: "only a ready or failed instance can be adopted"}
	case r.Owner.ID == "":
		return &template.FieldError{Path: "/record/owner", Text: "an owner is required"}
	}
	return checkRoom(tx)
}

// isValidID reports whether an ID has the form of those that a machine makes.
func isValidID(id string) bool {
	return len(id) == 10 && strings.IndexByte(alphabet, id[0]) < letters && strings.Trim(id, alphabet) == ""
}

// Launch is [Create] for a stored request: an instance with a given ID, or a claimed pool member.
// What Create would refuse becomes a record: [Rejected] for one that was never made, whose launch
// may be decided again; a claimed member is destroyed without an owner.
type Launch struct {
	ID, Of string // Of: name of the template, which may not exist
	Create
	Refused string // why the store already refuses it; "" if it does not
}

// isClaimable reports whether a record is a pool member that can get an owner.
func isClaimable(r *Record) bool {
	goes := r.Phase == Destroying || r.Phase == DestroyFailed
	return r.isUnclaimed() && r.Phase.Live() && !goes
}

// applyTo decides a stored launch request.
func (e Launch) applyTo(tx *tx) (Answer, error) {
	r := tx.doc.Records[e.ID]
	if r != nil && r.IsRefusedLaunch() {
		r = nil
	}
	if r != nil && !isClaimable(r) || !isValidID(e.ID) {
		return Answer{}, newRefusal(ErrPhase, "instance %s was already launched", clipForeign(e.ID, 32))
	}
	refused := e.Refused
	if refused == "" {
		err := checkCreate(tx, e.Create)
		if err == nil {
			err = checkLaunch(tx, e.Create, r)
		}
		if err != nil { // the requester cannot be asked to retry
			refused = err.Error()
		}
	}
	switch {
	case r == nil && refused == "":
		return makeInstance(tx, e.ID, e.Create), nil
	case r == nil:
		return rejectLaunch(tx, e, refused), nil
	case refused == "":
		return claimMember(tx, r, e.Create), nil
	}
	r = tx.edit(r)
	tx.recordEvent(r, "rejected", refused)
	startDestroy(tx, r, refused)
	return Answer{Status: 200, Record: r}, nil
}

// IsRefusedLaunch reports whether a record is of a [Launch] that was refused at once, and not by a
// person, whose [Reject] begins the reason.
func (r *Record) IsRefusedLaunch() bool {
	return r.Phase == Rejected && r.FinishedAt.Equal(r.CreatedAt) && !strings.HasPrefix(r.Reason, resultRejected)
}

// rejectLaunch adds the record of an instance that is never made.
func rejectLaunch(tx *tx, e Launch, why string) Answer {
	if e.Template != nil {
		tx.keepTemplate(e.Digest, e.Template)
	}
	r := tx.putRecord(&Record{ID: e.ID, Template: e.Of, Source: e.Source, Phase: Rejected, CreatedAt: tx.now, Since: tx.now, Snapshot: e.Digest})
	assignOwner(tx, r, e.Create)
	tx.recordEvent(r, "rejected", why)
	finishRecord(tx, r, Rejected, why)
	return Answer{Status: 200, Record: r}
}
