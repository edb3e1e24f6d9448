// SPDX-License-Identifier: Apache-2.0

package workspaceclient

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/oci"
)

// Client sends requests to one front-end. It is safe for concurrent use.
type Client struct {
	Front *client.Client
}

// root is the path of the routes below the address of a server.
const root = "api/v2/"

const (
	pageSize = 100 // maximum that a server returns at once
	// maxListed bounds the memory that an answer can take.
	maxListed = 10_000
	maxName   = 255 // of a workspace, in bytes
)

// Workspace is a workspace of an organization. Its strings come from the server and are
// not safe to print.
type Workspace struct {
	Organization string            `json:"organization"`
	Name         string            `json:"name"`
	Tags         []string          `json:"tags,omitempty"`       // keys, without values
	Values       map[string]string `json:"tag_values,omitempty"` // of the tags that have a value
	Project      string            `json:"project,omitempty"`
	Description  string            `json:"description,omitempty"`
	Locked       bool              `json:"locked,omitempty"`
	Created      time.Time         `json:"created,omitzero"` // zero: its state was stored through another API
}

// Ref names a workspace; without Name, an organization.
type Ref struct{ Organization, Name string }

// ErrName reports an invalid name.
var ErrName = errors.New("invalid name")

// ParseRef parses ORGANIZATION/WORKSPACE. The workspace is everything after the first slash.
func ParseRef(s string) (Ref, error) {
	organization, name, ok := strings.Cut(s, "/")
	p := Ref{organization, name}
	if !ok || !isSegment(organization) || !isSegment(name) || len(name) > maxName {
		return p, fmt.Errorf("%q is not ORGANIZATION/WORKSPACE: %w", s, ErrName)
	}
	return p, nil
}

// ParseOrganization parses the name of an organization.
func ParseOrganization(s string) (string, error) {
	if !isSegment(s) || strings.Contains(s, "/") {
		return "", fmt.Errorf("%q is not the name of an organization: %w", s, ErrName)
	}
	return s, nil
}

// isSegment reports whether a name is valid as part of an address.
func isSegment(s string) bool {
	dots := s == "." || s == ".."
	legible := utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
	return s != "" && !dots && legible
}

func (p Ref) String() string { return p.Organization + "/" + p.Name }

// apiPath returns the path of the workspace, with more appended.
func (p Ref) apiPath(more string) string {
	return root + "organizations/" + url.PathEscape(p.Organization) + "/workspaces/" + url.PathEscape(p.Name) + more
}

// resource is a workspace in JSON:API.
type resource struct {
	Attributes struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Tags        []string          `json:"tag-names"`
		Values      map[string]string `json:"tag-values"`
		Locked      bool              `json:"locked"`
		Created     time.Time         `json:"created-at"`
	} `json:"attributes"`
	Relationships struct {
		Project struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		} `json:"project"`
	} `json:"relationships"`
}

// defaultProject is the servers' name for the project of workspaces without one.
const defaultProject = "Default Project"

const projectPrefix = "prj-"

func (r resource) workspace(organization string) Workspace {
	w := Workspace{
		Organization: organization, Name: r.Attributes.Name, Tags: r.Attributes.Tags, Values: r.Attributes.Values, Description: r.Attributes.Description,
		Locked: r.Attributes.Locked, Created: r.Attributes.Created,
	}
	if id, ok := strings.CutPrefix(r.Relationships.Project.Data.ID, projectPrefix); ok {
		text, err := base64.RawURLEncoding.DecodeString(id)
		name := string(text)
		if of, its, ok := strings.Cut(name, "\x00"); ok && of == organization {
			name = its
		}
		if err == nil && name != defaultProject {
			w.Project = name
		}
	}
	return w
}

// Filter selects workspaces: those with all of the tags, in the project. The zero value
// selects all.
type Filter struct {
	Tags    []string // KEY, or KEY=VALUE
	Project string
}

// List returns the workspaces of an organization that the caller may read, by name.
func (c *Client) List(ctx context.Context, organization string, f Filter) ([]Workspace, error) {
	q := url.Values{}
	var keys []string
	for i, tag := range f.Tags {
		key, value, _ := strings.Cut(tag, "=")
		if value == "" {
			keys = append(keys, key)
			continue
		}
		q.Set(fmt.Sprintf("filter[tagged][%d][key]", i), key)
		q.Set(fmt.Sprintf("filter[tagged][%d][value]", i), value)
	}
	if len(keys) > 0 {
		q.Set("search[tags]", strings.Join(keys, ","))
	}
	if f.Project != "" {
		q.Set("filter[project][id]", projectID(f.Project))
	}
	list, err := listPages[resource](ctx, c, root+"organizations/"+url.PathEscape(organization)+"/workspaces", q)
	if err != nil {
		return nil, err
	}
	all := []Workspace{}
	for _, r := range list {
		all = append(all, r.workspace(organization))
	}
	return all, nil
}

func listPages[T any](ctx context.Context, c *Client, path string, q url.Values) (all []T, err error) {
	q.Set("page[size]", strconv.Itoa(pageSize))
	for page := 1; len(all) < maxListed; page++ {
		q.Set("page[number]", strconv.Itoa(page))
		var list struct {
			Data []T `json:"data"`
			Meta struct {
				Pagination struct {
					Next *int `json:"next-page"`
				} `json:"pagination"`
			} `json:"meta"`
		}
		if _, err := c.Front.Call(ctx, http.MethodGet, path, q, nil, nil, &list); err != nil {
			return nil, err
		}
		all = append(all, list.Data...)
		if len(list.Data) == 0 || list.Meta.Pagination.Next == nil {
			break
		}
	}
	return all, nil
}

// Organizations returns the names of the organizations in which the caller may read something.
func (c *Client) Organizations(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if _, err := c.Front.Call(ctx, http.MethodGet, root+"organizations", nil, nil, nil, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, one := range list.Data {
		names = append(names, one.ID)
	}
	return names, nil
}

// Workspace returns one workspace.
func (c *Client) Workspace(ctx context.Context, p Ref) (Workspace, error) {
	var one struct {
		Data resource `json:"data"`
	}
	_, err := c.Front.Call(ctx, http.MethodGet, p.apiPath(""), nil, nil, nil, &one)
	return one.Data.workspace(p.Organization), err
}

// New has the settings of a new workspace. The zero value sets nothing.
type New struct {
	Tags                 map[string]string // value "": a key without a value
	Project, Description string
	Mode                 string // execution mode, local or remote; "": that of the organization
}

// item is a tag, or another target of a relationship.
type item struct {
	Type       string            `json:"type"`
	ID         string            `json:"id,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Create makes a workspace. If it exists already, the error is [oci.ErrExists].
func (c *Client) Create(ctx context.Context, p Ref, n New) (Workspace, error) {
	relations := map[string]any{}
	if n.Project != "" {
		relations["project"] = map[string]any{"data": item{Type: "projects", ID: projectID(n.Project)}}
	}
	if len(n.Tags) > 0 {
		var tags []item
		for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
			tags = append(tags, item{Type: "tag-bindings", Attributes: map[string]string{"key": key, "value": n.Tags[key]}})
		}
		relations["tag-bindings"] = map[string]any{"data": tags}
	}
	attributes := map[string]string{"name": p.Name}
	if n.Description != "" {
		attributes["description"] = n.Description
	}
	if n.Mode != "" {
		attributes["execution-mode"] = n.Mode
	}
	body := map[string]any{"data": map[string]any{"type": "workspaces", "attributes": attributes, "relationships": relations}}
	var one struct {
		Data resource `json:"data"`
	}
	_, err := c.Front.Call(ctx, http.MethodPost, root+"organizations/"+url.PathEscape(p.Organization)+"/workspaces", nil, nil, body, &one)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusUnprocessableEntity {
		if _, there := c.Workspace(ctx, p); there == nil { // the status says only that the body was refused
			return Workspace{}, fmt.Errorf("workspace %s: %w", p, oci.ErrExists)
		}
	}
	return one.Data.workspace(p.Organization), err
}

// Delete deletes a workspace; its versions stay until they are pruned. Without force the
// server refuses while the state has resources ([oci.ErrExists]).
func (c *Client) Delete(ctx context.Context, p Ref, force bool) error {
	if force {
		_, err := c.Front.Call(ctx, http.MethodDelete, p.apiPath(""), nil, nil, nil, nil)
		return err
	}
	_, err := c.Front.Call(ctx, http.MethodPost, p.apiPath("/actions/safe-delete"), nil, nil, nil, nil)
	return err
}

func projectID(name string) string {
	return projectPrefix + base64.RawURLEncoding.EncodeToString([]byte(name))
}
