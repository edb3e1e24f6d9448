// SPDX-License-Identifier: Apache-2.0

package workspaceclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/seed-141914ff/okara/oci"
)

// Variable is a variable of a workspace, for runs on the server. Its strings are not safe to print.
type Variable struct {
	path        string  // of its route
	Key         string  `json:"key"`
	Value       *string `json:"value"`    // nil: it is sensitive
	Category    string  `json:"category"` // terraform or env
	Description string  `json:"description,omitempty"`
	HCL         bool    `json:"hcl"`
	Sensitive   bool    `json:"sensitive"`
}

// Variables returns the workspace's own variables, without those of sets, and the path of new ones.
func (c *Client) Variables(ctx context.Context, p Ref) (all []Variable, path string, err error) {
	type item struct {
		ID         string   `json:"id"`
		Attributes Variable `json:"attributes"`
	}
	var one struct{ Data item }
	if _, err := c.Front.Call(ctx, http.MethodGet, p.apiPath(""), nil, nil, nil, &one); err != nil {
		return nil, "", err
	}
	path = root + "workspaces/" + url.PathEscape(one.Data.ID) + "/vars"
	list, err := listPages[item](ctx, c, path, url.Values{})
	all = make([]Variable, len(list))
	for i, r := range list {
		all[i] = r.Attributes
		all[i].path = path + "/" + url.PathEscape(r.ID)
	}
	return all, path, err
}

// findVariable returns the path of a variable, "" if there is none, and that of new ones.
func (c *Client) findVariable(ctx context.Context, p Ref, category, key string) (path, parent string, err error) {
	all, parent, err := c.Variables(ctx, p)
	if i := slices.IndexFunc(all, func(v Variable) bool { return v.Key == key && v.Category == category }); i >= 0 {
		path = all[i].path
	}
	return path, parent, err
}

// SetVariable creates a variable, or gives the one with this category and key the attributes.
func (c *Client) SetVariable(ctx context.Context, p Ref, category, key string, attributes map[string]any) error {
	path, parent, err := c.findVariable(ctx, p, category, key)
	if err != nil {
		return err
	}
	method := http.MethodPatch
	if path == "" {
		method, path = http.MethodPost, parent
		attributes["category"], attributes["key"] = category, key
	}
	_, err = c.Front.Call(ctx, method, path, nil, nil, map[string]any{"data": map[string]any{"type": "vars", "attributes": attributes}}, &struct{}{})
	return err
}

// DeleteVariable deletes a variable; [oci.ErrNotFound] if there is none.
func (c *Client) DeleteVariable(ctx context.Context, p Ref, category, key string) error {
	path, _, err := c.findVariable(ctx, p, category, key)
	if err == nil && path == "" {
		err = fmt.Errorf("workspace %s has no %s variable %q: %w", p, category, key, oci.ErrNotFound)
	}
	if err == nil {
		_, err = c.Front.Call(ctx, http.MethodDelete, path, nil, nil, nil, nil)
	}
	return err
}
