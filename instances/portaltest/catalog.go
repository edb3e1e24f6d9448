// SPDX-License-Identifier: Apache-2.0

package portaltest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Templates are what most tests launch: personal instances with an end, at most one per
// user, owned by groups, from a pool, and with approval.
const Templates = `
template "lab/vpc" {
  title = "A network"
  module {
    address = "net/vpc/aws"
    version = "~> 1.0"
  }
  owner      = "user"
  per_owner  = 3
  protection = true
  ttl {
    default = "8h"
    max     = "72h"
    extend  = "2h"
    extends = 2
  }
  parameter "size" {
    enum   = ["small", "large"]
    update = true
  }
  parameter "secret" {}
  outputs = ["url", "password"]
  cost {
    hourly   = 0.5
    currency = "EUR"
  }
}

template "lab/one" {
  module { address = "net/vpc/aws" }
  owner     = "user"
  per_owner = 1
}

template "lab/team" {
  module { address = "net/vpc/aws" }
  owner  = "group"
  groups = ["team-*"]
}

template "lab/pool" {
  module { address = "net/vpc/aws" }
  owner = "user"
  ttl { default = "1h" }
  pool {
    size       = 2
    when_empty = "refuse"
  }
}

template "lab/asked" {
  module { address = "net/vpc/aws" }
  owner    = "user"
  approval = "request"
}

template "lab/planned" {
  module { address = "net/vpc/aws" }
  owner    = "user"
  approval = "plan"
}

template "other/vpc" {
  module { address = "net/vpc/aws" }
  owner = "user"
}
`

// module is the schema that all of them use.
const module = `{"type":"object","properties":{
  "size":{"type":"string","default":"small"},
  "secret":{"type":"string","writeOnly":true,"default":"s"},
  "name":{"type":"string","default":"n"},
  "ssh_key":{"type":"string","default":""},
  "open_key":{"type":"string","default":""},
  "zone":{"type":"string","default":"a","description":"Where it is."},
  "count":{"type":"number","default":1},
  "tags":{"type":"array","items":{"type":"string"},"default":[],"x-okara-type":"list(string)"},
  "labels":{"type":"object","additionalProperties":{"type":"string"},"default":{"team":"a"},"description":"Labels of all that it makes."},
  "place":{"type":["object","null"],"default":null,"properties":{"zone":{"type":"string"},"rack":{"type":["number","null"]}},"required":["zone"]},
  "disks":{"type":"array","default":[],"items":{"type":"object","properties":{"size":{"type":"number"},"fast":{"type":["boolean","null"]},"tags":{"type":"array","items":{"type":"string"}}},"required":["size"]}},
  "enabled":{"type":"boolean","default":true},
  "maybe":{"type":["boolean","null"],"default":null}}}`

// Catalog is a set of templates that a test may change.
type Catalog struct {
	mu      sync.Mutex // guards entries
	entries []template.Entry
}

// NewCatalog reads templates.
func NewCatalog(t testing.TB, text string) *Catalog {
	t.Helper()
	list := must.Get(template.Parse([]byte(text), "templates.hcl", template.Known{}))(t)
	c := &Catalog{}
	for _, tmpl := range list {
		schema := must.Get(template.NewSchema(tmpl, template.Module{Inputs: json.RawMessage(module), Outputs: map[string]bool{"url": false, "password": true}}))(t)
		digest := must.Get(tmpl.Digest())(t)
		c.entries = append(c.entries, template.Entry{
			Template: tmpl, Digest: digest, Schema: schema, From: "templates.hcl:1",
			Source: template.Source{Module: "net/vpc/aws", Version: "1.0.0", Digest: "sha256:1", Archive: "sha256:a1"},
		})
	}
	slices.SortFunc(c.entries, func(a, b template.Entry) int { return cmp.Compare(a.Template.Name, b.Template.Name) })
	return c
}

// Current returns a template.
func (c *Catalog) Current(name string) (*template.Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.entries {
		if c.entries[i].Template.Name == name {
			e := c.entries[i]
			return &e, true
		}
	}
	return nil, false
}

// All returns the templates, by name.
func (c *Catalog) All() []template.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entries)
}

// Pin returns a template with version 1.0.0 or 1.1.0 of its module.
func (c *Catalog) Pin(_ context.Context, name, version string) (*template.Entry, error) {
	e, ok := c.Current(name)
	if !ok {
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	}
	switch version {
	case "", "1.0.0":
	case "1.1.0":
		e.Source.Version = version
		e.Source.Digest = "sha256:2"
		e.Source.Archive = "sha256:a2"
	default:
		return nil, fmt.Errorf("version %.20q: %w", version, template.ErrInvalid)
	}
	return e, nil
}

// Compare reports that version 1.1.0 lost an output, and has a new required input and a new
// optional one.
func (c *Catalog) Compare(_ context.Context, was, is api.Source) ([]description.Difference, error) {
	if was.Version == is.Version {
		return nil, nil
	}
	before := artifact.DescribedModule{Outputs: []artifact.DescribedOutput{{Name: "host"}}}
	now := artifact.DescribedModule{
		Inputs:     json.RawMessage(`{"required":["region"],"properties":{"region":{"x-okara-type":"string"},"backup":{"x-okara-type":"bool","default":false}}}`),
		InputOrder: []string{"region", "backup"},
	}
	return description.CompareModules(before, now), nil
}

// Versions returns the versions that Pin takes.
func (c *Catalog) Versions(_ context.Context, name string) ([]string, error) {
	e, ok := c.Current(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	case e.Template.Pool != nil:
		return nil, nil
	}
	return []string{"1.1.0", "1.0.0"}, nil
}

// Remove removes a template.
func (c *Catalog) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = slices.DeleteFunc(c.entries, func(e template.Entry) bool { return e.Template.Name == name })
}

// Change changes the entry of a template.
func (c *Catalog) Change(name string, change func(*template.Entry)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.entries {
		if c.entries[i].Template.Name == name {
			change(&c.entries[i])
		}
	}
}
