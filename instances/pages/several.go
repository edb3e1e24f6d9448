// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

const (
	maxSeveral  = 50 // instances in one request
	maxReported = 3  // failures that are reported with their reasons
)

// severalBody is the page that destroys the instances chosen on a list.
type severalBody struct {
	formBody
	Rows     []instanceRow // what is destroyed
	Not      []instanceRow // what cannot be destroyed now, or not by the caller
	Typed    string        // confirmation
	TypedBad string        // why the confirmation does not match
}

// readChosen reads the chosen instances, as far as the caller may see them.
func (s *instances) readChosen(r *site.Request, ids []string) (severalBody, error) {
	var b severalBody
	if _, err := getFromAPI[api.Me](s.api, r, "me", nil); err != nil { // a login is needed in any case
		return b, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) > maxSeveral {
		return b, site.BadForm("%d instances selected, at most %d can be destroyed at once", len(ids), maxSeveral)
	}
	for _, id := range ids {
		i, err := getFromAPI[api.Instance](s.api, r, "instances/"+url.PathEscape(id), nil)
		if no, ok := errors.AsType[*refusedError](err); ok && no.status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return b, err
		}
		row := instanceRowOf(i, s.clock())
		if slices.Contains(i.Actions, api.ActDestroy) {
			b.Rows = append(b.Rows, row)
		} else {
			b.Not = append(b.Not, row)
		}
	}
	b.Typed = fmt.Sprintf("destroy %d", len(b.Rows))
	return b, nil
}

func (s *instances) showSeveral(r *site.Request) (*site.Page, error) {
	b, err := s.readChosen(r, r.URL.Query()["id"])
	if err != nil {
		return nil, err
	}
	return severalPage(b, s.clock.NewKey()), nil
}

func severalPage(b severalBody, key string) *site.Page {
	return &site.Page{
		Template: "instances_several.html", Title: "Destroy several instances", Key: key, NoStore: true, Body: b, Command: "okara instance destroy ID",
		Crumbs: []site.Link{{Text: "Instances", Href: "instances"}},
	}
}

// destroySeveral destroys one instance after the other: a failure does not stop the rest.
func (s *instances) destroySeveral(r *site.Request, f *site.Form) (*site.Answer, error) {
	b, err := s.readChosen(r, f.Values["id"])
	if err != nil {
		return nil, err
	}
	if len(b.Rows) == 0 {
		return &site.Answer{Page: notDonePage(severalPage(b, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	if strings.TrimSpace(f.Get("typed")) != b.Typed {
		b.TypedBad = "does not match: type it exactly as shown"
		b.Errors = append(b.Errors, problem{"typed", "The text " + b.TypedBad})
		return &site.Answer{Page: notDonePage(severalPage(b, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	var failed []string
	for _, row := range b.Rows {
		if _, err := callAPI[api.Instance](s.api, r, asked{method: http.MethodDelete, path: instancePath(row.ID), key: f.Key}); err != nil {
			no, ok := errors.AsType[*refusedError](err)
			if !ok {
				return nil, err
			}
			failed = append(failed, row.Text+": "+no.Error())
		}
	}
	text := destroyedWords(len(b.Rows)-len(failed), failed)
	return &site.Answer{To: "instances", Text: text, Bad: len(failed) > 0}, nil
}

// destroyedWords describes the outcome of destroying several instances.
func destroyedWords(done int, failed []string) string {
	text := fmt.Sprintf("%d instances are being destroyed.", done)
	if done == 1 {
		text = "1 instance is being destroyed."
	}
	if len(failed) == 0 {
		return text
	}
	text += fmt.Sprintf(" %d could not be: %s", len(failed), strings.Join(failed[:min(len(failed), maxReported)], "; "))
	if len(failed) > maxReported {
		text += "; and others"
	}
	return text + "."
}

// A field that is needed only when other fields have certain values is always in the form:
// a script hides and shows it, and without script its condition is stated in words. If the
// condition does not hold, the form keeps its content but does not send it as a value.

// describeDepends describes on which other fields a field depends, for the script and in words.
func (p parameters) describeDepends(f *field, part property) {
	when := map[string][]string{}
	words := []string{}
	for _, name := range slices.Sorted(maps.Keys(part.When)) {
		other := p.Properties[name]
		if !slices.Contains(p.Order, name) {
			continue // its value is fixed and fits, or this field would not be here
		}
		var texts []string
		for _, value := range part.When[name] {
			texts = append(texts, other.formText(value))
		}
		words = append(words, text.Block(other.label(name)+" is "+strings.Join(texts, " or ")))
		if empty, err := other.value(""); empty == nil && err == nil && isAmong(other.Default, part.When[name]) {
			texts = append(texts, "") // an empty field has its default
		}
		when[prefix+name] = texts
	}
	if len(when) == 0 {
		return
	}
	f.Help = append(f.Help, "Only used when "+strings.Join(words, ", and ")+".")
	b, err := json.Marshal(when)
	if err == nil {
		f.When = string(b)
	}
}

func isAmong(value json.RawMessage, all []json.RawMessage) bool {
	return slices.ContainsFunc(all, func(part json.RawMessage) bool { return isSame(part, value) })
}

// neverApplies reports whether a parameter cannot apply in this form: it depends on one that the
// form does not show, whose value is a different one.
func (p parameters) neverApplies(name string) bool {
	unasked, err := template.Unasked(p.raw, p.have)
	for other, values := range p.Properties[name].When {
		if !slices.Contains(p.Order, other) && (err != nil || unasked[other] || !isAmong(p.have[other], values)) {
			return true
		}
	}
	return false
}

// dropUnasked removes the values of fields that do not apply, and their errors.
func (p parameters) dropUnasked(fields []field, values map[string]json.RawMessage, bad map[string]bool) {
	all := map[string]json.RawMessage{}
	maps.Copy(all, p.have)
	maps.Copy(all, values)
	unasked, err := template.Unasked(p.raw, all)
	if err != nil {
		return // the API reports errors in the schema
	}
	for i := range fields {
		if name := strings.TrimPrefix(fields[i].Name, prefix); unasked[name] {
			delete(values, name)
			delete(bad, name)
			clearErrors(&fields[i])
		}
	}
}

func clearErrors(f *field) {
	f.Error = ""
	for i := range f.Fields {
		clearErrors(&f.Fields[i])
	}
	for _, row := range f.Rows {
		for i := range row.Fields {
			clearErrors(&row.Fields[i])
		}
	}
}

// sensitiveBody is the page that asks whether to show a sensitive output, and the one
// that shows it.
type sensitiveBody struct {
	Instance site.Link
	Name     string
	Value    string
	Shown    bool
}

func (s *instances) sensitivePage(i api.Instance, name string) *site.Page {
	b := sensitiveBody{Instance: site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}, Name: text.Block(name)}
	return &site.Page{
		Template: "instance_show_sensitive.html", Title: "Show " + b.Name, Key: s.clock.NewKey(), NoStore: true, Body: b,
		Crumbs: []site.Link{{Text: "Instances", Href: "instances"}, b.Instance}, Command: "okara instance outputs " + i.ID + " NAME --reveal",
	}
}

func (s *instances) askSensitive(r *site.Request) (*site.Page, error) {
	i, err := s.instanceOf(r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	if _, ok := i.Outputs[name]; !ok {
		return nil, site.NotFound("no such output")
	}
	return s.sensitivePage(i, name), nil
}

// showSensitive shows one value, once; the API records it.
func (s *instances) showSensitive(r *site.Request, f *site.Form) (*site.Answer, error) {
	i, err := s.instanceOf(r)
	if err != nil {
		return nil, err
	}
	output, err := callAPI[api.ShownOutput](s.api, r, asked{method: http.MethodPost, path: "instances/" + url.PathEscape(i.ID) + "/outputs/reveal", body: api.ShowSensitive{Name: f.Get("name")}})
	if err != nil {
		return nil, err
	}
	p := s.sensitivePage(i, output.Name)
	b := p.Body.(sensitiveBody)
	b.Value = valuesOf(map[string]json.RawMessage{output.Name: output.Value})[0].Text
	b.Shown = true
	p.Title = b.Name
	p.Body = b
	return &site.Answer{Page: p}, nil
}
