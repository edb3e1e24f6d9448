// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// remoteRuns implements for tfe.v2 the runs of workspaces of execution mode remote:
// records beside those of instances, with the same leader, queue and executor.
type remoteRuns struct {
	l        *platform
	given    map[string][]string // credentials by organization
	required map[string]bool     // organizations whose runs need a lock of modules
}

var _ tfe.Runs = (*remoteRuns)(nil)

func newRemoteRuns(l *platform) *remoteRuns {
	r := &remoteRuns{l, map[string][]string{}, map[string]bool{}}
	for _, org := range l.base.Settings.Cloud.Organizations {
		r.given[org.Name] = org.Credentials
		r.required[org.Name] = org.RequireLock
	}
	return r
}

func runID(organization, workspace, record string, n int) string {
	return "run-" + base64.RawURLEncoding.EncodeToString([]byte(organization+"\x00"+workspace)) + "." + record + "." + strconv.Itoa(n)
}

// remoteName matches the names of workspaces that can have runs: names become parts of rights.
var remoteName = text.Pattern(`^[A-Za-z0-9_.-]{1,90}$`)

func (r *remoteRuns) organizationTemplate(organization string) (*template.Template, string, error) {
	t := &template.Template{
		Name: lifecycle.WorkspaceTemplate(organization), Enabled: true, Executor: template.ExecutorLocal,
		Timeout: r.l.base.Settings.Cloud.TFE.RunTimeout.Value(), Credentials: r.given[organization], RequireLock: r.required[organization],
	}
	digest, err := t.Digest()
	return t, digest, err
}

// Document returns the document that this replica knows.
func (r *remoteRuns) Document(ctx context.Context) (*lifecycle.Document, error) {
	v, err := r.l.ledger.View(ctx)
	if err == nil && v.Document == nil {
		err = lifecycle.ErrNoLeader
	}
	return v.Document, runError(err)
}

func (r *remoteRuns) findRun(ctx context.Context, w tfe.Workspace, record string, n int) (*lifecycle.Record, *lifecycle.Run, error) {
	rec, err := r.findRecord(ctx, w, record)
	if err != nil {
		return nil, nil, err
	}
	u := rec.FindRun(n)
	if u == nil {
		return nil, nil, tfe.ErrNoRun
	}
	return rec, u, nil
}

func (r *remoteRuns) findRecord(ctx context.Context, w tfe.Workspace, id string) (*lifecycle.Record, error) {
	d, err := r.Document(ctx)
	if err != nil {
		return nil, err
	}
	rec := d.WorkspaceRecord(w.Organization, w.Name)
	if rec == nil || rec.ID != id {
		return nil, fmt.Errorf("workspace %s/%s has no record %s: %w", w.Organization, w.Name, id, tfe.ErrNoRun)
	}
	return rec, nil
}

// Do commits an event of a caller.
func (r *remoteRuns) Do(ctx context.Context, by access.Caller, e lifecycle.Event) (lifecycle.Answer, error) {
	c := lifecycle.Command{Event: e, Actor: lifecycle.Actor{Issuer: by.Issuer, Subject: by.Subject, Label: by.Label}}
	if by.Mode == "static" {
		c.Actor.Issuer = "okara:static"
	}
	rand.Read(c.Seed[:]) // never fails
	a, err := r.l.ledger.Do(ctx, c)
	return a, runError(err)
}

// runError converts an error of the machine to one of tfe.v2.
func runError(err error) error {
	for _, as := range []struct{ from, to error }{
		{lifecycle.ErrNotFound, tfe.ErrNoRun}, {lifecycle.ErrPhase, tfe.ErrRunStatus}, {lifecycle.ErrStalePlan, tfe.ErrRunStatus},
		{lifecycle.ErrFull, tfe.ErrTooManyRuns}, {lifecycle.ErrNoLeader, oci.ErrUnavailable},
	} {
		if errors.Is(err, as.from) {
			return fmt.Errorf("%w: %w", as.to, err)
		}
	}
	return err
}

func (r *remoteRuns) View(ctx context.Context, w tfe.Workspace) (tfe.RunView, error) {
	d, err := r.Document(ctx)
	if err != nil {
		return tfe.RunView{}, err
	}
	rec := d.WorkspaceRecord(w.Organization, w.Name)
	if rec == nil {
		return tfe.RunView{}, nil
	}
	v := tfe.RunView{Record: rec.ID}
	for _, u := range rec.AllRuns() {
		v.Runs = append(v.Runs, remoteRun(u))
	}
	return v, nil
}

func remoteRun(u *lifecycle.Run) tfe.Run {
	out := tfe.Run{
		N: u.N, Status: remoteStatus(u), HasChanges: u.Changes, Plan: u.Plan, Created: u.CreatedAt,
		Cancelled: u.Result == "" && u.Cancel != "", Error: u.Error,
	}
	if u.Counts != nil {
		out.Add = u.Counts.Add
		out.Change = u.Counts.Change
		out.Remove = u.Counts.Remove
	}
	if a := u.Ask; a != nil {
		out.Configuration = a.Upload
		out.RunOptions = tfe.RunOptions{
			Speculative: a.Speculative, AutoApply: a.AutoApply, Destroy: a.Destroy, RefreshOnly: a.RefreshOnly, NoRefresh: a.NoRefresh,
			SavePlan: a.Save, Message: a.Message,
		}
	}
	return out
}

func remoteStatus(u *lifecycle.Run) tfe.RunStatus {
	switch {
	case u.Result == lifecycle.Done && u.Kind == lifecycle.RunApply:
		return tfe.RunApplied
	case u.Result == lifecycle.Done:
		return tfe.RunPlannedAndFinished
	case u.Result == lifecycle.Cancelled:
		return tfe.RunCanceled
	case u.Result == lifecycle.Discarded:
		return tfe.RunDiscarded
	case u.Result != "":
		return tfe.RunErrored
	case u.Active() && u.Kind == lifecycle.RunApply:
		return tfe.RunApplying
	case u.Active():
		return tfe.RunPlanning
	case u.Approved != "":
		return tfe.RunConfirmed
	case u.Plan != "" && u.Ask != nil && u.Ask.Save:
		return tfe.RunPlannedAndSaved
	case u.Plan != "":
		return tfe.RunPlanned
	}
	return tfe.RunPending
}

func (r *remoteRuns) Open(ctx context.Context, w tfe.Workspace, by access.Caller) (string, error) {
	if !remoteName().MatchString(w.Name) {
		return "", fmt.Errorf("workspace %q cannot run on the server: its name may contain only letters, digits, -, _ and .: %w", w.Name, oci.ErrUnsupported)
	}
	d, err := r.Document(ctx)
	if err != nil {
		return "", err
	}
	if rec := d.WorkspaceRecord(w.Organization, w.Name); rec != nil {
		return rec.ID, nil
	}
	t, digest, err := r.organizationTemplate(w.Organization)
	if err != nil {
		return "", err
	}
	a, err := r.Do(ctx, by, lifecycle.OpenWorkspace{Template: t, Digest: digest, Workspace: w.Name})
	if err != nil {
		return "", err
	}
	return a.Record.ID, nil
}

func (r *remoteRuns) Repository(w tfe.Workspace, record string) (*oci.Repo, error) {
	i, err := r.l.driver.WorkspaceRepo(w.Organization, record)
	return i.Repo, err
}

func (r *remoteRuns) CheckEnvironment(name string) error { return CheckEnvironment(name) }

// CheckEnvironment refuses an environment variable that runs do not take from a workspace.
func CheckEnvironment(name string) error { return sandbox.CheckWorkspaceVariable(name) }

func (r *remoteRuns) Create(ctx context.Context, w tfe.Workspace, record string, n tfe.NewRun) (tfe.Run, error) {
	rec, err := r.findRecord(ctx, w, record)
	if err != nil {
		return tfe.Run{}, err
	}
	ask := lifecycle.Ask{
		Key: n.Key, Upload: n.Configuration, Message: n.Message, Speculative: n.Speculative, Save: n.SavePlan, AutoApply: n.AutoApply,
		Destroy: n.Destroy, RefreshOnly: n.RefreshOnly, NoRefresh: n.NoRefresh,
	}
	if len(n.Variables)+len(n.Environment)+len(n.Targets)+len(n.Replace) > 0 {
		b, err := json.Marshal(run.RemoteInput{
			Variables: n.Variables, Environment: n.Environment, Masked: n.Masked, Targets: n.Targets, Replace: n.Replace, Salt: rand.Text(),
		})
		if err != nil {
			return tfe.Run{}, err
		}
		i, err := r.l.driver.WorkspaceRepo(w.Organization, rec.ID)
		if err != nil {
			return tfe.Run{}, err
		}
		if ask.Input, err = i.PutInput(ctx, rec.ID, b); err != nil {
			return tfe.Run{}, err
		}
	}
	t, digest, err := r.organizationTemplate(w.Organization)
	if err != nil {
		return tfe.Run{}, err
	}
	a, err := r.Do(ctx, n.By, lifecycle.Enqueue{
		ID: rec.ID, Template: t, Digest: digest, Ask: ask, Source: template.Source{Digest: n.Manifest, Archive: n.Archive, Size: n.Size},
	})
	return runOfAnswer(a, err)
}

func runOfAnswer(a lifecycle.Answer, err error) (tfe.Run, error) {
	if err != nil {
		return tfe.Run{}, err
	}
	u := a.Record.FindRun(a.Run)
	if u == nil {
		return tfe.Run{}, tfe.ErrNoRun
	}
	is := remoteRun(u)
	is.Repeated = a.Repeat
	return is, nil
}

func (r *remoteRuns) Act(ctx context.Context, w tfe.Workspace, record string, n int, d tfe.Decision) (tfe.Run, error) {
	rec, err := r.findRecord(ctx, w, record)
	if err != nil {
		return tfe.Run{}, err
	}
	var e lifecycle.Event
	switch d.Action {
	case tfe.RunConfirm:
		e = lifecycle.Confirm{ID: rec.ID, N: n, Plan: d.Plan}
	case tfe.RunDiscard:
		e = lifecycle.Discard{ID: rec.ID, N: n}
	case tfe.RunCancel:
		e = lifecycle.CancelOne{ID: rec.ID, N: n}
	case tfe.RunForceCancel:
		e = lifecycle.CancelOne{ID: rec.ID, N: n, Force: true}
	default:
		return tfe.Run{}, fmt.Errorf("%q: %w", d.Action, oci.ErrUnsupported)
	}
	return runOfAnswer(r.Do(ctx, d.By, e))
}

func (r *remoteRuns) Queue(ctx context.Context, organization string) (tfe.RunQueue, error) {
	d, err := r.Document(ctx)
	if err != nil {
		return tfe.RunQueue{}, err
	}
	type waiting struct {
		tfe.QueuedRun
		position int // 1<<30: other runs of its workspace come first
		run      *lifecycle.Run
	}
	var q tfe.RunQueue
	var all []waiting
	for id, rec := range d.Records {
		if rec.Organization() != organization || !rec.Phase.Live() {
			continue
		}
		for _, u := range rec.AllRuns() {
			switch status := remoteStatus(u); {
			case status == tfe.RunPlanning || status == tfe.RunApplying:
				q.Running++
			case status == tfe.RunPending || status == tfe.RunConfirmed:
				entry := waiting{tfe.QueuedRun{Workspace: tfe.Workspace{Organization: organization, Name: rec.Workspace}, Record: id, N: u.N}, 1 << 30, u}
				if u == rec.Run {
					entry.position = d.QueuePosition(id)
				}
				all = append(all, entry)
			}
		}
	}
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.position, b.position), a.run.CreatedAt.Compare(b.run.CreatedAt), cmp.Compare(a.Record, b.Record), a.N-b.N)
	})
	for _, entry := range all {
		q.Waiting = append(q.Waiting, entry.QueuedRun)
	}
	return q, nil
}

func (r *remoteRuns) End(ctx context.Context, w tfe.Workspace, by access.Caller) error {
	d, err := r.Document(ctx)
	if err != nil {
		return err
	}
	rec := d.WorkspaceRecord(w.Organization, w.Name)
	if rec == nil {
		return nil
	}
	_, err = r.Do(ctx, by, lifecycle.CloseWorkspace{ID: rec.ID})
	switch {
	case errors.Is(err, tfe.ErrNoRun):
		return nil // another request closed it first
	case errors.Is(err, tfe.ErrRunStatus):
		return fmt.Errorf("%w: %w", tfe.ErrRunPending, err)
	}
	return err
}

// remoteScopes returns the rights of an attempt: to read the state for a plan, or to write it.
func remoteScopes(s run.Attempt) []rights.Scope {
	action := rights.Read
	if s.Ref.Kind == lifecycle.RunApply {
		action = rights.Write
	}
	return []rights.Scope{{Action: action, Kind: addr.KindState, Glob: s.Remote.Organization + "/" + s.Remote.Workspace}}
}

var _ pages.Runs = (*remoteRuns)(nil)

func (r *remoteRuns) PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (io.ReadCloser, bool, error) {
	return r.l.driver.PhaseLog(ctx, rec, u, apply, offset)
}

// forwardRuns forwards to the leader the requests that only the leader can answer correctly.
func (l *platform) forwardRuns(kit *service.Kit) (func(own http.Handler) http.Handler, error) {
	transport, err := l.peers()
	if err != nil {
		return nil, err
	}
	refuse := func(r *http.Request) error {
		if tfe.Signed(r.URL.Path) || onPages(r) {
			return nil // the leader checks the signature, or redirects to the login
		}
		return kit.Guard.AllowLogin(r)
	}
	return func(own http.Handler) http.Handler {
		forward := portal.NewForward(portal.ForwardOptions{
			Kit: kit, Leader: l.ledger.Leader, View: l.ledger.View, Own: own, Refuse: refuse, Transport: transport, Plain: l.o.ForwardPlain,
		})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tfe.ForLeader(r, r.URL.Path) || onPages(r) {
				forward.ServeHTTP(w, r)
				return
			}
			own.ServeHTTP(w, r)
		})
	}, nil
}

func onPages(r *http.Request) bool {
	return r.URL.Path == "/ui/runs" || strings.HasPrefix(r.URL.Path, "/ui/runs/")
}
