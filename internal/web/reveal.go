// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/text"
)

// revealBody is the page that asks whether to show a sensitive output, and the one
// that shows it.
type revealBody struct {
	Instance link
	Name     string
	Value    string
	Shown    bool
}

func (s *server) revealPage(r *request, i api.Instance, name string) *page {
	b := revealBody{Instance: link{nameOfInstance(i), instancePath(i.ID)}, Name: text.Block(name)}
	return &page{
		Template: "instance_reveal.html", Title: "Show " + b.Name, Key: s.newKey(), NoStore: true, Body: b,
		Crumbs: []link{{"Instances", "instances"}, b.Instance}, Command: "okara instance outputs " + i.ID + " NAME --reveal",
	}
}

func (s *server) revealShow(r *request) (*page, error) {
	i, err := s.instanceIn(r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	if _, ok := i.Outputs[name]; !ok {
		return nil, notFound("there is no such output")
	}
	return s.revealPage(r, i, name), nil
}

// mayReveal is the check of the form: the caller may see the instance.
func (s *server) mayReveal(r *request) error {
	_, err := s.instanceIn(r)
	return err
}

// reveal shows one value, once; the API records it.
func (s *server) reveal(r *request, f *form) (*answer, error) {
	i, err := s.instanceIn(r)
	if err != nil {
		return nil, err
	}
	one, err := ask[api.Revealed](s, r, asked{method: http.MethodPost, path: "instances/" + url.PathEscape(i.ID) + "/outputs/reveal", body: api.Reveal{Name: f.Get("name")}})
	if err != nil {
		return nil, err
	}
	p := s.revealPage(r, i, one.Name)
	b := p.Body.(revealBody)
	b.Value, b.Shown = valuesOf(map[string]json.RawMessage{one.Name: one.Value})[0].Text, true
	p.Title, p.Body = b.Name, b
	return &answer{Page: p}, nil
}
