// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// kindBody is the page of a kind of the cluster, whose objects users write themselves.
type kindBody struct {
	templateCard
	Invalid string
	Lines   []site.Fact
	Example string // in YAML; "": none yet
	Explain string // command
}

// kindCard shows a kind among the templates. It cannot be launched here.
func kindCard(k api.Kind) templateCard {
	c := templateCard{
		Link: site.Link{Text: cmp.Or(text.Block(k.Title), text.Block(k.Kind)), Href: "kinds/" + site.EscapePath(k.Name)}, Name: text.Block(k.Kind), Description: text.Block(k.Description),
		Marks: []site.Mark{{Text: "kind of the cluster", Kind: "plain"}}, Facts: []string{strings.TrimSpace(text.Block(k.Module + " " + k.Version))},
	}
	if k.Invalid != "" {
		c.Marks = append(c.Marks, site.Mark{Text: "cannot be made", Kind: "bad"})
	}
	return c
}

// kind shows a kind of the cluster.
func (s *templates) kind(r *site.Request) (*site.Page, error) {
	k, err := get[api.Kind](s.api, r, "kinds/"+site.EscapePath(r.PathValue("name")), nil)
	if err != nil {
		return nil, err
	}
	body := kindBody{
		templateCard: kindCard(k), Invalid: text.Block(k.Invalid), Example: text.Block(k.Example), Explain: "kubectl explain " + k.Name + ".spec",
		Lines: []site.Fact{{Name: "Kind", Text: text.Block(k.Kind)}, {Name: "API version", Text: text.Block(k.APIVersion)}, {Name: "Module", Text: strings.TrimSpace(text.Block(k.Module + " " + k.Version))}},
	}
	if len(k.Tags) > 0 {
		body.Lines = append(body.Lines, site.Fact{Name: "Tags", Text: text.Block(strings.Join(k.Tags, ", "))})
	}
	return &site.Page{
		Template: "kind.html", Title: body.Text, Crumbs: []site.Link{{Text: "Launch", Href: "templates"}}, Command: "kubectl get " + k.Name, Body: body,
	}, nil
}
