// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/statebackend"
)

// tagList is a list of tags in a body: by name alone, or bound to a value.
type tagList struct {
	Data []struct {
		Attributes struct {
			Name  string `json:"name"`
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"attributes"`
	} `json:"data"`
}

// addTo adds the tags to a record. A tag without a value keeps the one it has.
func (l tagList) addTo(r *statebackend.Record) error {
	tags := maps.Clone(r.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	for _, t := range l.Data {
		a := t.Attributes
		if name := a.Name; name != "" {
			if _, ok := tags[name]; !ok {
				tags[name] = ""
			}
			continue
		}
		if a.Key == "" {
			return invalid("a tag has no name")
		}
		tags[a.Key] = a.Value
	}
	r.Tags = tags
	return nil
}

func (l tagList) removeFrom(r *statebackend.Record) error {
	tags := maps.Clone(r.Tags)
	for _, t := range l.Data {
		name := t.Attributes.Name
		if name == "" {
			name = t.Attributes.Key
		}
		delete(tags, name)
	}
	r.Tags = tags
	return nil
}

func (s tags) addTags(w http.ResponseWriter, r *http.Request) error {
	return s.changeTags(w, r, tagList.addTo)
}

func (s tags) removeTags(w http.ResponseWriter, r *http.Request) error {
	return s.changeTags(w, r, tagList.removeFrom)
}

func (s tags) changeTags(w http.ResponseWriter, r *http.Request, change func(tagList, *statebackend.Record) error) error {
	if _, err := s.tagged(w, r, change); err != nil {
		return err
	}
	return noContent(w)
}

// tagged changes the tags of a workspace by the body of the request.
func (s tags) tagged(w http.ResponseWriter, r *http.Request, change func(tagList, *statebackend.Record) error) (statebackend.Record, error) {
	p, h, g, err := s.workspaces().named(r, manage)
	if err != nil {
		return statebackend.Record{}, err
	}
	var body tagList
	if err := s.readBody(w, r, smallBody, &body); err != nil {
		return statebackend.Record{}, err
	}
	r, cancel := within(r)
	defer cancel()
	_, record, err := s.workspaces().change(r.Context(), p, h, g, func(r *statebackend.Record) error { return change(body, r) })
	return record, err
}

type binding struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// bindings are the tags of a workspace in the type that the route has for them.
func bindings(kind string, r *statebackend.Record) []resource {
	list := []resource{}
	if r != nil {
		for _, key := range slices.Sorted(maps.Keys(r.Tags)) {
			id := "tb-" + base64.RawURLEncoding.EncodeToString([]byte(key))
			list = append(list, resource{Type: kind, ID: id, Attributes: binding{key, r.Tags[key]}})
		}
	}
	return list
}

func (s tags) listTagBindings(w http.ResponseWriter, r *http.Request) error {
	p, _, _, err := s.workspaces().named(r, access.Read)
	if err != nil {
		return err
	}
	kind := "tag-bindings"
	if strings.HasSuffix(r.URL.Path, "/effective-tag-bindings") {
		kind = "effective-tag-bindings"
	}
	r, cancel := within(r)
	defer cancel()
	at, err := s.open(r.Context(), p)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, document{Data: bindings(kind, at.live())})
}

func (s tags) addTagBindings(w http.ResponseWriter, r *http.Request) error {
	record, err := s.tagged(w, r, tagList.addTo)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, document{Data: bindings("tag-bindings", &record)})
}
