// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
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

// several destroys instances that were chosen on a list.
type several struct {
	api   *backend
	clock site.Clock
}

// read reads the chosen instances, as far as the caller may see them.
func (s *several) read(r *site.Request, ids []string) (severalBody, error) {
	var b severalBody
	if _, err := get[api.Me](s.api, r, "me", nil); err != nil { // a login is needed in any case
		return b, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) > maxSeveral {
		return b, site.BadForm("%d instances were chosen, at most %d are destroyed at once", len(ids), maxSeveral)
	}
	for _, id := range ids {
		i, err := get[api.Instance](s.api, r, "instances/"+url.PathEscape(id), nil)
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

func (s *several) show(r *site.Request) (*site.Page, error) {
	b, err := s.read(r, r.URL.Query()["id"])
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

// may is the check of the form: the API decides for each instance what the caller may do.
func (s *several) may(*site.Request) error { return nil }

// destroy destroys one instance after the other: a failure does not stop the rest.
func (s *several) destroy(r *site.Request, f *site.Form) (*site.Answer, error) {
	b, err := s.read(r, f.Values["id"])
	if err != nil {
		return nil, err
	}
	if len(b.Rows) == 0 {
		return &site.Answer{Page: again(severalPage(b, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	if strings.TrimSpace(f.Get("typed")) != b.Typed {
		b.TypedBad = "does not match: type it exactly as shown"
		b.Errors = append(b.Errors, problem{"typed", "What you typed " + b.TypedBad})
		return &site.Answer{Page: again(severalPage(b, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	var failed []string
	for _, row := range b.Rows {
		if _, err := ask[api.Instance](s.api, r, asked{method: http.MethodDelete, path: instancePath(row.ID), key: f.Key}); err != nil {
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
