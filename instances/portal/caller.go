// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
)

// role is the set of roles that a caller has for an instance.
type role uint8

const (
	reads       role = 1 << iota // sees that it exists, and its progress
	approves                     // sees parameters, plans and logs as well
	owns                         // or one of the caller's groups does
	administers                  // sees everything but secrets, and may act on it
	receives                     // it is offered to the caller, who sees what is needed to decide
)

// readsLogs are the roles that may read the tool's output: an approver sees the last run's outcome.
const readsLogs = owns | approves | administers

// name returns the name of the strongest role in the set.
func (r role) name() string {
	switch {
	case r&owns != 0:
		return "owner"
	case r&administers != 0:
		return "admin"
	case r&approves != 0:
		return "approver"
	case r&reads != 0:
		return "reader"
	case r&receives != 0:
		return "receiver"
	}
	return ""
}

// caller is the identity that sent a request, with its rights.
type caller struct {
	grant  access.Grant
	actor  lifecycle.Actor
	stale  error  // why groups do not count for ownership; nil: they do
	key    string // of the caller: hash of issuer and subject
	server *server
}

// Issuers of callers that no real issuer vouches for.
const (
	issuerStatic    = "okara:static"    // tokens of the configuration; the subject is the name of the token
	issuerAnonymous = "okara:anonymous" // callers without a token, where they have rights
)

func identifyCaller(s *server, r *http.Request) (caller, error) {
	g, err := s.kit.Guard.Allow(r, rights.Right{Action: rights.List, Kind: addr.KindInstance})
	if err != nil {
		return caller{}, err
	}
	c, ok := callerOf(g, s.o.GroupAge)
	if !ok {
		return caller{}, &access.Refusal{Status: http.StatusForbidden, Text: "this token cannot be used for templates and instances"}
	}
	c.server = s
	sum := sha256.Sum256([]byte(c.actor.Issuer + "\x00" + c.actor.Subject))
	c.key = hex.EncodeToString(sum[:])
	s.people.noteCaller(c)
	return c, nil
}

// callerOf returns the caller of a grant; false for those that cannot own an instance: a run, or a credential
// of the registry.
func callerOf(g access.Grant, groupAge time.Duration) (caller, bool) {
	c := caller{grant: g, actor: lifecycle.Actor{Issuer: g.Issuer, Subject: g.Subject, Label: g.Label}}
	switch g.Mode {
	case "anonymous":
		c.actor.Issuer = issuerAnonymous
		c.actor.Subject = "anonymous"
	case "static":
		c.actor.Issuer = issuerStatic
	case "login", "oidc", "session":
		c.actor.Groups, c.stale = g.Groups(groupAge)
	default:
		return caller{}, false
	}
	return c, true
}

func (c caller) mayInstance(action rights.Action, template string) bool {
	return c.grant.May(rights.Right{Action: action, Kind: addr.KindInstance, Address: template})
}

func (c caller) mayAny(action rights.Action) bool {
	return c.grant.May(rights.Right{Action: action, Kind: addr.KindInstance, Address: rights.Somewhere})
}

func (c caller) mayRead(template string) bool {
	return c.mayInstance(rights.Use, template) ||
		c.grant.May(rights.Right{Action: rights.Read, Kind: addr.KindTemplate, Address: template})
}

// isAnonymous reports whether the request came without credentials.
func (c caller) isAnonymous() bool { return c.grant.Mode == "anonymous" }

func (c caller) role(d *lifecycle.Document, r *lifecycle.Record) role {
	return c.judgeFor(d).role(r)
}

// judge finds a caller's roles, evaluating the access rules once a template.
type judge struct {
	c     caller
	d     *lifecycle.Document
	rules map[string]role // by template, independent of the owner; owns applies only to the caller's own
}

func (c caller) judgeFor(d *lifecycle.Document) judge { return judge{c, d, map[string]role{}} }

func (j judge) role(r *lifecycle.Record) role {
	have, known := j.rules[r.Template]
	if !known {
		have = j.c.rules(r.Template)
		j.rules[r.Template] = have
	}
	if have&owns == 0 {
		return have
	}
	if r.Offer != nil && j.c.actsAs(r.Offer.To) {
		have |= receives
	}
	if !j.c.isOwner(j.d, r) {
		return have &^ owns
	}
	return have | reads
}

// rules returns the caller's roles for a template's instances; owns only for those of the caller.
func (c caller) rules(template string) role {
	var have role
	if lifecycle.IsWorkspaceTemplate(template) { // an admin of all instances may view it; it cannot be changed here
		if c.grant.May(rights.Right{Action: rights.Admin, Kind: addr.KindInstance, Address: rights.Everything}) {
			have = reads | administers
		}
		return have
	}
	for action, roles := range map[rights.Action]role{rights.Admin: reads | administers, rights.Approve: reads | approves, rights.Read: reads, rights.Use: owns} {
		if c.mayInstance(action, template) {
			have |= roles
		}
	}
	return have
}

// isOwner reports whether an instance belongs to the caller or a group of the caller's.
func (c caller) isOwner(d *lifecycle.Document, r *lifecycle.Record) bool {
	if r.Owner.Kind != template.OwnerClaim {
		return c.actsAs(r.Owner)
	}
	t := d.Templates[r.Snapshot]
	if t == nil || r.Owner.Issuer != c.actor.Issuer {
		return false
	}
	claim, ok := strings.CutPrefix(t.Owner, "claim:")
	value, has := c.grant.Claims[claim]
	return ok && has && value == r.Owner.ID
}

func (c caller) actsAs(o template.Owner) bool {
	switch {
	case o.Issuer != c.actor.Issuer:
		return false
	case o.Kind == template.OwnerUser:
		return o.ID == c.actor.Subject
	}
	return o.Kind == template.OwnerGroup && slices.Contains(c.actor.Groups, o.ID)
}

// isUnsure reports whether an instance is a group's whose membership was confirmed too long ago:
// the caller has to log in again, and nothing pretends that it does not exist.
func (c caller) isUnsure(r *lifecycle.Record) bool { return c.unsureOf(r.Owner, r.Template) }

func (c caller) unsureOf(o template.Owner, name string) bool {
	group := o.Kind == template.OwnerGroup && o.Issuer == c.actor.Issuer
	return c.stale != nil && group && slices.Contains(c.grant.Former(), o.ID) && c.mayInstance(rights.Use, name)
}

func (c caller) owner() template.Owner {
	return template.Owner{Kind: template.OwnerUser, Issuer: c.actor.Issuer, ID: c.actor.Subject, Label: c.actor.Label}
}

// missingInstance refuses an instance that does not exist or that the caller may not see.
func missingInstance(id string) error {
	return &service.Error{Status: http.StatusNotFound, Text: "instance " + quoteID(id) + " not found or not visible to you"}
}

// missingIn is missingInstance for this replica, which without a leader may lack the newest ones.
func missingIn(v lifecycle.View, id string) error {
	if !v.Leading {
		return fmt.Errorf("unknown instance %s: %w", quoteID(id), lifecycle.ErrNoLeader)
	}
	return missingInstance(id)
}

// quoteID returns an id for use in an answer; text that cannot be an id is not repeated.
func quoteID(id string) string {
	if len(id) > 40 || strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return "of this name"
	}
	return id
}

// refuseUnknown refuses callers without a token and without rights.
func (c caller) refuseUnknown() error {
	if c.isAnonymous() {
		return &access.Refusal{Status: http.StatusUnauthorized, Text: "token required"}
	}
	return nil
}

// allowEveryone admits every caller; the answer depends on the caller's rights.
func allowEveryone(_ *server, _ *http.Request, c caller, _ lifecycle.View) (struct{}, caller, error) {
	return struct{}{}, c, nil
}

// requireUser admits callers with a token, and all where anonymous has rights.
func requireUser(_ *server, _ *http.Request, c caller, _ lifecycle.View) (struct{}, caller, error) {
	if c.mayAny(rights.Read) || c.mayAny(rights.Use) {
		return struct{}{}, c, nil
	}
	return struct{}{}, c, c.refuseUnknown()
}

// requireLauncher admits callers that may launch some template, which the body names.
func requireLauncher(s *server, r *http.Request, c caller, _ lifecycle.View) (struct{}, caller, error) {
	_, err := s.kit.Guard.Allow(r, rights.Right{Action: rights.Use, Kind: addr.KindInstance, Address: rights.Somewhere})
	return struct{}{}, c, err
}

func requireAdmin(s *server, r *http.Request, c caller, _ lifecycle.View) (struct{}, caller, error) {
	_, err := s.kit.Guard.Allow(r, rights.Right{Action: rights.Admin, Kind: addr.KindInstance, Address: rights.Everything})
	return struct{}{}, c, err
}

// findTemplate finds a template that the caller may see, whether or not it still exists.
func findTemplate(_ *server, r *http.Request, c caller, _ lifecycle.View) (string, caller, error) {
	name := r.PathValue("namespace") + "/" + r.PathValue("name")
	if c.mayRead(name) {
		return name, c, nil
	}
	if err := c.refuseUnknown(); err != nil {
		return "", c, err
	}
	return "", c, noTemplate(name)
}

// noTemplate refuses a template that does not exist or that the caller may not see.
func noTemplate(name string) error {
	return &service.Error{Status: http.StatusNotFound, Text: fmt.Sprintf("template %.80s not found or not visible to you", text.Line(name))}
}

// findPausable is findTemplate for callers that may pause the template.
func findPausable(s *server, r *http.Request, c caller, v lifecycle.View) (string, caller, error) {
	name, c, err := findTemplate(s, r, c, v)
	if err != nil {
		return "", c, err
	}
	c.grant, err = s.kit.Guard.Allow(r, rights.Right{Action: rights.Admin, Kind: addr.KindTemplate, Address: name})
	c.actor.Admin = err == nil
	return name, c, err
}

// findLaunchable finds a template that the caller may launch.
func findLaunchable(s *server, r *http.Request, c caller, v lifecycle.View) (string, caller, error) {
	name, c, err := findTemplate(s, r, c, v)
	if err != nil {
		return "", c, err
	}
	c, err = checkLaunch(s, r, c, name)
	return name, c, err
}

// checkLaunch decides whether the caller may launch a template.
func checkLaunch(s *server, r *http.Request, c caller, name string) (caller, error) {
	if !c.mayRead(name) {
		return c, noTemplate(name)
	}
	g, err := s.kit.Guard.Allow(r, rights.Right{Action: rights.Use, Kind: addr.KindInstance, Address: name})
	c.grant = g
	c.actor.Admin = err == nil && c.mayInstance(rights.Admin, name)
	return c, err
}

// findInstance finds an instance for which the caller has a needed role. One that the caller may
// not see, or is only offered unless that is enough, is reported as missing.
func findInstance(needed role) finder[*lifecycle.Record] {
	return func(s *server, r *http.Request, c caller, v lifecycle.View) (*lifecycle.Record, caller, error) {
		if c.isAnonymous() && !c.mayAny(rights.Read) && !c.mayAny(rights.Use) {
			return nil, c, c.refuseUnknown()
		}
		id := r.PathValue("id")
		record, ok := v.Document.Records[id]
		if !ok {
			return nil, c, missingIn(v, id)
		}
		have := c.role(v.Document, record)
		if have&(reads|needed&receives) == 0 {
			offer := record.Offer
			if c.isUnsure(record) || needed&receives != 0 && offer != nil && c.unsureOf(offer.To, record.Template) {
				return nil, c, c.stale
			}
			return nil, c, missingIn(v, id)
		}
		c, err := checkAct(s, r, c, record, have, needed)
		return record, c, err
	}
}

// checkAct decides, and records, whether the caller has a role that a request needs. Who may see
// the instance gets the reason.
func checkAct(s *server, r *http.Request, c caller, record *lifecycle.Record, have, needed role) (caller, error) {
	right := rights.Right{Kind: addr.KindInstance, Address: record.Template}
	if have&needed == 0 {
		right.Action = rights.Use
		if needed&approves != 0 {
			right.Action = rights.Approve
		} else if needed == administers {
			right.Action = rights.Admin
		}
		s.kit.Guard.Record(r, access.Record{Caller: c.grant.Caller, Right: right})
		return c, &access.Refusal{Status: http.StatusForbidden, Text: "instance " + record.ID + ": this requires " + needed.words()}
	}
	c.actor.Admin = have&administers != 0
	if readOnly(r) {
		return c, nil // the caller was recorded; the answer shows only what may be read
	}
	switch {
	case have&needed&(owns|receives) != 0:
		right.Action = rights.Use
	case have&needed&approves != 0:
		right.Action = rights.Approve
	default:
		right.Action = rights.Admin
	}
	g, err := s.kit.Guard.Allow(r, right)
	c.grant = g
	return c, err
}

func (r role) words() string {
	var words []string
	for _, check := range []struct {
		role
		word string
	}{{receives, "an offer to you"}, {owns, "its owner"}, {approves, "an approver"}, {administers, "an admin"}} {
		if r&check.role != 0 {
			words = append(words, check.word)
		}
	}
	return strings.Join(words, " or ")
}

// findOwnInstance finds the caller's newest live instance of a template, else the newest.
func findOwnInstance(s *server, r *http.Request, c caller, v lifecycle.View) (*lifecycle.Record, caller, error) {
	name, c, err := findTemplate(s, r, c, v)
	if err != nil {
		return nil, c, err
	}
	var found *lifecycle.Record
	as := c.judgeFor(v.Document)
	for _, record := range v.Document.Records {
		if record.Template != name {
			continue
		}
		if as.role(record)&owns == 0 {
			if c.isUnsure(record) {
				return nil, c, c.stale
			}
			continue
		}
		if found == nil || listedBefore(record, found) {
			found = record
		}
	}
	if found == nil {
		return nil, c, &service.Error{Status: http.StatusNotFound, Text: "you have no instance of " + name}
	}
	c, err = checkAct(s, r, c, found, reads|owns, owns)
	return found, c, err
}

// listedBefore reports whether a is listed before b: live instances first, then the newest.
func listedBefore(a, b *lifecycle.Record) bool {
	if a.Phase.Live() != b.Phase.Live() {
		return a.Phase.Live()
	}
	return compareListed(a, b) < 0
}

// compareListed is the sort order of lists: the newest first.
func compareListed(a, b *lifecycle.Record) int {
	return cmp.Or(startTime(b).Compare(startTime(a)), strings.Compare(a.ID, b.ID))
}

// startTime returns when an instance began for its owner.
func startTime(r *lifecycle.Record) time.Time {
	if !r.ClaimedAt.IsZero() {
		return r.ClaimedAt
	}
	return r.CreatedAt
}

// KeepForTemplates adds the parts of an identity that a session keeps for templates.
func KeepForTemplates(k *access.Kept, entries []template.Entry) {
	for _, e := range entries {
		t := e.Template
		k.Claims = append(k.Claims, t.Claims()...)
		switch {
		case t.Owner == template.OwnerGroup && len(t.Groups) == 0:
			k.Groups = append(k.Groups, rights.Everything)
		case t.Owner == template.OwnerGroup:
			k.Groups = append(k.Groups, t.Groups...)
		}
	}
}
