// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// phaseMark is the phase of an instance in words, with its severity.
func phaseMark(phase string) site.Mark {
	m, ok := map[lifecycle.Phase]site.Mark{
		lifecycle.Requested:     {Text: "waiting for approval", Kind: "warn"},
		lifecycle.Planned:       {Text: "plan waiting for approval", Kind: "warn"},
		lifecycle.Provisioning:  {Text: "being created", Kind: "busy"},
		lifecycle.Updating:      {Text: "being updated", Kind: "busy"},
		lifecycle.Available:     {Text: "ready in the pool", Kind: "plain"},
		lifecycle.Ready:         {Text: "ready", Kind: "good"},
		lifecycle.Failed:        {Text: "failed", Kind: "bad"},
		lifecycle.Destroying:    {Text: "being destroyed", Kind: "busy"},
		lifecycle.DestroyFailed: {Text: "destroy failed", Kind: "bad"},
		lifecycle.Destroyed:     {Text: "destroyed", Kind: "plain"},
		lifecycle.Orphaned:      {Text: "orphaned", Kind: "warn"},
		lifecycle.Rejected:      {Text: "rejected", Kind: "plain"},
	}[lifecycle.Phase(phase)]
	if !ok {
		return site.Mark{Text: text.Block(phase), Kind: "plain"}
	}
	return m
}

// stateMark is the mark of an instance's phase, or of its being stopped.
func stateMark(i api.Instance) site.Mark {
	switch {
	case !i.Stopped || i.Phase != string(lifecycle.Ready):
		return phaseMark(i.Phase)
	case i.StoppedUntil == "":
		return site.Mark{Text: "stopped", Kind: "plain"}
	}
	return site.Mark{Text: "stopped until " + text.Block(i.StoppedUntil), Kind: "plain"}
}

// reasonOf says why an instance is in its phase: of a failure, what was being done.
func reasonOf(i api.Instance) string {
	reason := text.Block(i.Reason)
	doing := ""
	switch phase := lifecycle.Phase(i.Phase); {
	case reason == "":
		return ""
	case phase == lifecycle.DestroyFailed:
		doing = "destroying"
	case wasNeverReady(i):
		doing = "creating"
	case phase == lifecycle.Failed:
		doing = "changing"
	default:
		return reason
	}
	return "Failed while " + doing + ": " + reason
}

func conditionMarks(i api.Instance) []site.Mark {
	var all []site.Mark
	for _, c := range i.Conditions {
		switch c.Type {
		case lifecycle.Drifted:
			all = append(all, site.Mark{Text: "differs from its plan", Kind: "warn"})
		case lifecycle.UpdateAvailable:
			all = append(all, site.Mark{Text: "update available", Kind: "plain"})
		case lifecycle.ExpiredProtected:
			all = append(all, site.Mark{Text: "past its expiry", Kind: "warn"})
		case lifecycle.ExpiresSoon:
			all = append(all, site.Mark{Text: "expires soon", Kind: "warn"})
		}
	}
	if i.Pending != nil && i.Phase != string(lifecycle.Requested) && i.Phase != string(lifecycle.Planned) {
		all = append(all, site.Mark{Text: "change waiting for approval", Kind: "warn"})
	}
	if i.Protected != "" {
		all = append(all, site.Mark{Text: "protected", Kind: "plain"})
	}
	if i.Offer != nil {
		all = append(all, site.Mark{Text: "offered", Kind: "plain"})
	}
	return all
}

// remaining is the remaining lifetime of an instance.
type remaining struct {
	Text    string
	Ends    time.Time
	At      string // the same in words
	Seconds int64  // at the time of the page; 0: it has expired
	State   string // waits: the lifetime begins when it is ready, and Text is all of it; over: it ends or has ended
}

// timeLeft returns the remaining lifetime of an instance; nil: it has no end.
func timeLeft(i api.Instance, now time.Time) *remaining {
	phase := lifecycle.Phase(i.Phase)
	begins := phase == lifecycle.Requested || phase == lifecycle.Planned || phase == lifecycle.Provisioning
	switch {
	case !phase.Live() || phase == lifecycle.Destroying || phase == lifecycle.DestroyFailed:
		return &remaining{State: "over"}
	case i.ExpiresAt.IsZero():
		return nil
	case i.TTL != 0 && i.ReadyAt.IsZero() && begins:
		return &remaining{Text: site.Span(time.Duration(i.TTL)), State: "waits"}
	}
	d := max(i.ExpiresAt.Sub(now), 0)
	return &remaining{Text: site.Span(d), Ends: i.ExpiresAt, At: hourOf(i.ExpiresAt, now), Seconds: int64(d / time.Second)}
}

// hourOf formats a time of today, of the coming week or of another day.
func hourOf(t, now time.Time) string {
	t = t.UTC()
	now = now.UTC()
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04") + " UTC"
	case t.After(now) && t.Before(now.Add(6*24*time.Hour)):
		return t.Format("Monday 15:04") + " UTC"
	}
	return t.Format("2 Jan 2006, 15:04") + " UTC"
}

// nextSteps describes what happens next, and why it waits.
func nextSteps(i api.Instance, now time.Time) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if o := i.Offer; o != nil {
		lines = offerWords(i, o, now)
	}
	if i.Role == "receiver" {
		return lines
	}
	waiting := describeWait(i, now)
	switch lifecycle.Phase(i.Phase) {
	case lifecycle.Requested:
		say("An approver reviews the request. Nothing runs before that.")
		if !i.Next.IsZero() {
			say("Without a decision, it is rejected at %s.", hourOf(i.Next, now))
		}
	case lifecycle.Planned:
		say("The plan is ready, and nothing has been changed. An approver reviews it, and exactly that plan is applied.")
	case lifecycle.Provisioning, lifecycle.Updating, lifecycle.Destroying:
		if waiting == "" && i.Run != nil && !i.Run.StartedAt.IsZero() {
			say("Run %d has been running since %s.", i.Run.N, hourOf(i.Run.StartedAt, now))
		}
	case lifecycle.Ready:
		if i.Stopped && i.StartsAt.After(i.ExpiresAt) && !i.ExpiresAt.IsZero() {
			say("It ends before it would be started again.")
		}
		if i.Stopped {
			say("It was stopped to save what it costs. Its lifetime continues, and changes leave it stopped.")
		}
	case lifecycle.Available:
		say("It waits in the pool until the template is launched.")
	case lifecycle.Failed:
		if i.ReadyAt.IsZero() {
			say("See the log. Change the values and launch it again, retry as it is, or destroy what was created.")
		} else {
			say("See the log. Retry, or destroy what was created.")
		}
	case lifecycle.DestroyFailed:
		say("Some of its resources may still exist. It is retried every day, next at %s, and immediately on request.", hourOf(i.Next, now))
	case lifecycle.Orphaned:
		say("It is no longer managed, and its resources were left in place. So were its state and source.")
	case lifecycle.Destroyed, lifecycle.Rejected:
		if !i.Next.IsZero() {
			say("Its record is removed at %s.", hourOf(i.Next, now))
		}
	}
	if p := i.Pending; p != nil && p.Run == 0 && i.Phase != string(lifecycle.Requested) {
		say("An approver reviews %s, requested by %s. Until then the instance stays as it is.", wantedWords(p.What), askedBy(p))
	}
	if waiting != "" {
		say("%s", waiting)
	}
	if phase := lifecycle.Phase(i.Phase); i.ExpiresAt.IsZero() && phase.Live() && (phase == lifecycle.Ready || phase == lifecycle.Failed) {
		say("It does not expire: destroy it when you no longer need it.")
	}
	if !i.ExpiresAt.IsZero() && !i.ExpiresAt.After(now) && i.Protected != "" {
		say("Expired, but kept: the instance is protected.")
	}
	return lines
}

// offerWords describes to whom an instance is offered, and until when.
func offerWords(i api.Instance, o *api.Offer, now time.Time) []string {
	until := hourOf(o.Until, now)
	if i.Role != "receiver" && !slices.Contains(i.Actions, api.ActDecline) {
		return []string{fmt.Sprintf("It is offered to %s, who can take it until %s. Until then nothing changes. To withdraw the offer, transfer it to %s again.", ownerName(o.To), until, ownerName(i.Owner))}
	}
	lines := []string{fmt.Sprintf("%s offers it to %s, until %s. The new owner has its outputs and may change and destroy it. It counts against the quota of the new owner.", personName(o.By), ownerName(o.To), until)}
	if o.Refused != "" {
		lines = append(lines, "It cannot be taken now: "+text.Block(o.Refused)+".")
	}
	return lines
}

// describeWait describes why a run does not progress; "": it does.
func describeWait(i api.Instance, now time.Time) string {
	for _, c := range i.Conditions {
		if c.Type != lifecycle.Waiting {
			continue
		}
		message := ""
		if c.Message != "" {
			message = ": " + text.Block(c.Message)
		}
		switch c.Reason {
		case lifecycle.WaitQueued:
			if i.Run != nil && i.Run.Position > 0 {
				return fmt.Sprintf("Position %d in the queue.", i.Run.Position)
			}
			return "Waiting in the queue."
		case lifecycle.WaitRetry:
			if i.Run != nil && i.Run.NotBefore.After(now) {
				return fmt.Sprintf("An attempt failed; next attempt at %s%s", hourOf(i.Run.NotBefore, now), message)
			}
			return "An attempt failed, the next one starts" + message
		case lifecycle.WaitStateLocked:
			return "The lock of its state is held by someone else" + message
		case lifecycle.WaitCredentialMissing:
			return "The server lacks a credential that the template names" + message
		}
		return "Waiting: " + text.Block(c.Reason) + message
	}
	return ""
}

// describeCosts describes what an instance has cost so far, and its rate; "": not known.
func describeCosts(i api.Instance, now time.Time) string {
	if i.Cost == nil {
		return ""
	}
	since := i.ReadyAt
	until := now
	if i.ClaimedAt.After(since) {
		since = i.ClaimedAt
	}
	if !i.FinishedAt.IsZero() {
		until = i.FinishedAt
	}
	hourly := formatMoney(i.Cost.Hourly, i.Cost.Currency) + " an hour"
	if since.IsZero() || until.Before(since) {
		return hourly
	}
	return formatMoney(i.Cost.Hourly*until.Sub(since).Hours(), i.Cost.Currency) + " so far, " + hourly
}

func formatMoney(amount float64, currency string) string {
	return fmt.Sprintf("%.2f %s", amount, text.Block(currency))
}

func personName(p *api.Person) string {
	switch {
	case p == nil:
		return "the server"
	case p.Label != "":
		return text.Block(p.Label)
	}
	return text.Block(p.Subject)
}

func ownerName(o *api.Owner) string {
	switch {
	case o == nil:
		return "nobody"
	case o.Kind == template.OwnerUser && o.Label != "":
		return text.Block(o.Label)
	case o.Kind == template.OwnerUser:
		return text.Block(o.ID)
	}
	return o.Kind + " " + text.Block(o.ID)
}
