// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxShownValue bounds a masked value that is shown, in bytes.
const maxShownValue = 64 << 10

// sensitiveBody is the page of one masked value: before it is shown, and with it.
type sensitiveBody struct {
	Address, Path string
	Fields        []hiddenField // of the form
	Shown         bool
	Text          string
	Cut           bool
	Back          string // page of the resource, below Up
}

type hiddenField struct{ Name, Value string }

// sensitiveValues has the page that shows a masked value on request.
type sensitiveValues struct {
	versions *versions
	clock    site.Clock
}

// show asks whether to show a masked value, and says that this is recorded.
func (s *sensitiveValues) show(r *site.Request) (*site.Page, error) {
	p, err := s.versions.versionAt(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	pg, _, err := s.maskedValue(r, p, q.Get("address"), q.Get("path"))
	return pg, err
}

// showValue shows one masked value, and records that, without the value.
func (s *sensitiveValues) showValue(r *site.Request, f *site.Form) (*site.Answer, error) {
	p, err := s.versions.versionAt(r)
	if err != nil {
		return nil, err
	}
	address := f.Get("address")
	path := f.Get("path")
	pg, raw, err := s.maskedValue(r, p, address, path)
	if err != nil {
		return nil, err
	}
	body := pg.Body.(sensitiveBody)
	body.Shown = true
	words := string(raw)
	if json.Unmarshal(raw, &words) != nil {
		words = string(raw)
	}
	body.Text = text.Clip(text.Block(words), maxShownValue)
	body.Cut = len(words) > maxShownValue
	pg.Body = body
	pg.Key = ""
	r.Grant.Record(s.versions.visibility.readRight(p.name, p.workspace).Address, access.Change{
		Action: "reveal", Version: strconv.FormatInt(p.n, 10), Status: http.StatusOK,
		Detail: site.Clip(text.Block(address + " " + path)),
	})
	return &site.Answer{Page: pg}, nil
}

func (s *sensitiveValues) maskedValue(r *site.Request, p versionRef, address, path string) (*site.Page, json.RawMessage, error) {
	d, err := s.versions.readStateView(r, p, p.n)
	if err != nil {
		return nil, nil, noState(err, p.name)
	}
	var raw json.RawMessage
	ok := d.Document != nil
	if ok {
		raw, ok = d.ShowSensitive(address, path)
	}
	if !ok {
		return nil, nil, site.NotFound("version %d has no such value", p.n)
	}
	back := p.versionPath("resources") + "?address=" + url.QueryEscape(address)
	return &site.Page{
		Template: "state_show_sensitive.html", Title: "A masked value", Key: s.clock.NewKey(), NoStore: true,
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: p.name, Href: statePath(p.name)}, {Text: text.Block(p.workspace), Href: p.workspacePath()}, {Text: fmt.Sprintf("Version %d", p.n), Href: p.versionPath()}, {Text: site.Clip(text.Block(address)), Href: back}},
		Body:   sensitiveBody{Address: site.Clip(text.Block(address)), Path: site.Clip(text.Block(path)), Fields: []hiddenField{{"address", address}, {"path", path}}, Back: back},
	}, raw, nil
}
