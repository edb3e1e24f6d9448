// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

func describeExtend(i api.Instance) []string {
	if i.ExtendsMax > 0 {
		return []string{fmt.Sprintf("It was extended %d of %d times.", i.Extends, i.ExtendsMax)}
	}
	return nil
}

func extendFields(c *verbCall) ([]field, error) {
	return []field{{Name: "by", ID: "by", Label: "By", Kind: kindText, Help: []string{"Such as 30m or 2h; empty means " + c.i.ExtendBy.String() + "."}}}, nil
}

func extendBody(c *verbCall, f *site.Form) (any, bool) {
	text := strings.TrimSpace(f.Get("by"))
	if text == "" || len(c.body.Fields) == 0 {
		return api.Extend{}, true
	}
	by, err := span.Parse(text)
	if err != nil {
		c.body.Fields[0].Error = "must be a duration such as 30m or 2h"
	}
	return api.Extend{By: by}, err == nil
}

func renameFields(c *verbCall) ([]field, error) {
	return []field{{Name: "name", ID: "name", Label: "Name", Kind: kindText, Value: text.Block(c.i.Name), Help: []string{"Up to 64 characters; empty for none."}}}, nil
}

func renameBody(_ *verbCall, f *site.Form) (any, bool) {
	return api.Update{Name: new(strings.TrimSpace(f.Get("name")))}, true
}

func reasonFields(*verbCall) ([]field, error) {
	return []field{{Name: "reason", ID: "reason", Label: "Reason", Kind: kindArea, Required: true, Help: []string{"Other users can read it."}}}, nil
}

func reasonBody(_ *verbCall, f *site.Form) (any, bool) { return api.Reason{Reason: reasonIn(f)}, true }

func describeApprove(i api.Instance) []string {
	switch {
	case i.Pending == nil:
		return nil
	case i.Pending.What == api.PendingPlan:
		return []string{"Exactly this plan is applied. If it has changed since you reviewed it, it is refused."}
	case i.Pending.What == api.PendingExtend:
		return []string{"It is extended until then. If the request has changed since you reviewed it, it is refused."}
	}
	return []string{"Exactly this runs. If it has changed since you reviewed it, it is refused."}
}

func commentFields(*verbCall) ([]field, error) {
	return []field{{Name: "reason", ID: "reason", Label: "Comment", Kind: kindArea, Help: []string{"For the requester and the owner; may be empty."}}}, nil
}

func approveBody(_ *verbCall, f *site.Form) (any, bool) {
	return api.Approve{Plan: f.Get("plan"), Reason: reasonIn(f)}, true
}

func describeTransfer(i api.Instance) []string {
	if i.Role == "admin" {
		return []string{"It counts against the quota of the new owner."}
	}
	return []string{"It counts against the quota of the new owner. You may no longer be able to see it.", "Somebody else has a week to take it. Until then it stays yours, and you can take the offer back: transfer it to yourself."}
}

func transferDone(i api.Instance, now time.Time) string {
	switch {
	case i.Offer != nil:
		return "It is offered to " + ownerName(i.Offer.To) + ", who can take it until " + hourOf(i.Offer.Until, now) + "."
	case len(i.Events) > 0 && i.Events[0].Action == "offer withdrawn":
		return "Offer withdrawn."
	}
	return "Transferred: the instance has a new owner."
}

// transferFields offers the caller and the caller's groups as a choice, and a text field for
// others; an admin may enter any owner.
func transferFields(c *verbCall) ([]field, error) {
	if c.i.Role == "admin" {
		return []field{{Name: "to", ID: "to", Label: "To", Kind: kindText, Required: true, Help: []string{"The name or verified address of somebody who has logged in here, a group, or user:SUBJECT and group:NAME for others."}}}, nil
	}
	me, err := getFromAPI[api.Me](c.s.api, c.r, "me", nil)
	if err != nil {
		return nil, err
	}
	f := field{Name: "to", ID: "to", Label: "To", Kind: kindChoose, Options: []site.Choice{{Text: "someone else", Chosen: true}, {Value: "user:" + me.Subject, Text: "myself"}}}
	for _, g := range me.Groups {
		f.Options = append(f.Options, site.Choice{Value: "group:" + g, Text: "group " + text.Block(g)})
	}
	other := field{Name: "other", ID: "other", Label: "Someone else", Kind: kindText, Help: []string{"The name or verified address of somebody who has logged in here, or a group, who may use the template."}}
	return []field{f, other}, nil
}

func transferBody(_ *verbCall, f *site.Form) (any, bool) {
	return api.Transfer{To: cmp.Or(strings.TrimSpace(f.Get("to")), strings.TrimSpace(f.Get("other")))}, true
}

// updateFields returns the parameters that may change, and the version.
func updateFields(c *verbCall) ([]field, error) {
	t, err := getFromAPI[api.Template](c.s.api, c.r, "templates/"+c.i.Template, nil)
	if err != nil {
		return nil, err
	}
	p, err := readParameters(t.Schema)
	if err != nil {
		return nil, err
	}
	p.have = map[string]json.RawMessage{}
	maps.Copy(p.have, c.i.Parameters)
	p.Order = slices.DeleteFunc(p.Order, func(name string) bool { return !p.Properties[name].Update && !wasNeverReady(c.i) })
	p.Order = slices.DeleteFunc(p.Order, p.neverApplies)
	for _, name := range p.Order { // a secret stays one, even if the module no longer marks it
		if property := p.Properties[name]; isMasked(c.i.Parameters[name]) {
			property.Sensitive = true
			property.Default = nil
			p.Properties[name] = property
		}
	}
	c.parameters = p
	c.chosen = p.chooseValues(p.have)
	version := field{
		Name: "version", ID: "version", Label: "Version of the module", Kind: kindChoose,
		Options: []site.Choice{{Text: "current: " + text.Block(c.i.Source.Version), Chosen: true}, {Value: "newest", Text: "the newest that the template allows"}},
	}
	c.body.Compares = true
	return append(c.keepSecrets(p.shownFields(c.chosen)), append([]field{version}, reasonField(t.Approval)...)...), nil
}

// keepSecrets says that the instance has a value where a field of a secret is empty.
func (c *verbCall) keepSecrets(fields []field) []field {
	for n := range fields {
		if f := &fields[n]; c.parameters.Properties[c.parameters.Order[n]].Sensitive {
			f.Required = f.Again
			f.Help = append(f.Help, "Leave it empty to keep the value.")
		}
	}
	return fields
}

// reasonField asks for a reason for the approver; there is none without approval.
func reasonField(approval string) []field {
	if approval == template.ApprovalNone {
		return nil
	}
	return []field{{Name: "reason", ID: "reason", Label: "Reason", Kind: kindArea, Help: []string{"For the approver; may be empty."}}}
}

func reasonIn(f *site.Form) string { return strings.TrimSpace(plainLines(f.Get("reason"))) }

// updateBody sends what differs from the values that the form showed at first.
func updateBody(c *verbCall, f *site.Form) (any, bool) {
	p := c.parameters
	asks, values, ok := p.readForm(f.Values, c.chosen)
	extra := c.body.Fields[len(asks):]
	c.body.Fields = append(c.keepSecrets(asks), extra...)
	changed := map[string]json.RawMessage{}
	for i, name := range p.Order {
		value, has := values[name]
		switch secret := p.Properties[name].Sensitive; {
		case !has || secret && f.Get(prefix+name) == "" || !secret && isSame(value, c.chosen[name]):
			continue
		case secret:
			c.body.Changed = append(c.body.Changed, asks[i].Label+": a new value, which this page does not repeat: enter it again")
		default:
			c.body.Changed = append(c.body.Changed, asks[i].Label+" "+briefValue(c.chosen[name])+" → "+briefValue(value))
		}
		changed[name] = value
	}
	if f.Get("version") != "" {
		c.body.Changed = append(c.body.Changed, "the version of the module "+text.Block(c.i.Source.Version)+" → "+text.Block(f.Get("version")))
	}
	return api.Update{Parameters: changed, Version: f.Get("version"), Reason: reasonIn(f)}, ok
}
