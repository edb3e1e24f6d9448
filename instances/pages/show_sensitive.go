// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// sensitiveBody is the page that asks whether to show a sensitive output, and the one
// that shows it.
type sensitiveBody struct {
	Instance site.Link
	Name     string
	Value    string
	Shown    bool
}

// sensitiveOutputs serves the pages that show a sensitive output on request.
type sensitiveOutputs struct {
	instances *instances
	clock     site.Clock
}

func (s *sensitiveOutputs) page(i api.Instance, name string) *site.Page {
	b := sensitiveBody{Instance: site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}, Name: text.Block(name)}
	return &site.Page{
		Template: "instance_show_sensitive.html", Title: "Show " + b.Name, Key: s.clock.NewKey(), NoStore: true, Body: b,
		Crumbs: []site.Link{{Text: "Instances", Href: "instances"}, b.Instance}, Command: "okara instance outputs " + i.ID + " NAME --reveal",
	}
}

func (s *sensitiveOutputs) show(r *site.Request) (*site.Page, error) {
	i, err := s.instances.in(r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	if _, ok := i.Outputs[name]; !ok {
		return nil, site.NotFound("there is no such output")
	}
	return s.page(i, name), nil
}

// may is the check of the form: the caller may see the instance.
func (s *sensitiveOutputs) may(r *site.Request) error {
	_, err := s.instances.in(r)
	return err
}

// showValue shows one value, once; the API records it.
func (s *sensitiveOutputs) showValue(r *site.Request, f *site.Form) (*site.Answer, error) {
	i, err := s.instances.in(r)
	if err != nil {
		return nil, err
	}
	output, err := ask[api.ShownOutput](s.instances.api, r, asked{method: http.MethodPost, path: "instances/" + url.PathEscape(i.ID) + "/outputs/reveal", body: api.ShowSensitive{Name: f.Get("name")}})
	if err != nil {
		return nil, err
	}
	p := s.page(i, output.Name)
	b := p.Body.(sensitiveBody)
	b.Value = valuesOf(map[string]json.RawMessage{output.Name: output.Value})[0].Text
	b.Shown = true
	p.Title = b.Name
	p.Body = b
	return &site.Answer{Page: p}, nil
}
