// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
)

// Filter selects the instances to list. An empty field matches any.
type Filter struct {
	Owner    string // me, mine (including groups), offered (to the caller) or KIND:ID
	Template string // glob
	Phase    string // phases with commas between them, or live
}

// Instances returns the instances that the caller may see, newest first, joined into one
// page.
func (c *Client) Instances(ctx context.Context, f Filter) (all api.Instances, err error) {
	q := url.Values{}
	for name, v := range map[string]string{"owner": f.Owner, "template": f.Template, "phase": f.Phase} {
		if v != "" {
			q.Set(name, v)
		}
	}
	err = pages(ctx, c, "instances", q, func(page api.Instances) (int, string) {
		n := len(page.Instances)
		before := all.Instances
		all = page
		all.Instances = append(before, page.Instances...)
		return n, page.Next
	})
	return all, err
}

// Create launches a template. status is 201 if an instance was made or claimed, 200 if it
// existed, 202 if it waits for approval.
func (c *Client) Create(ctx context.Context, body api.Create) (instance api.Instance, status int, err error) {
	return change[api.Instance](ctx, c, http.MethodPost, "instances", body)
}

// All returns every instance in the ledger, for admins.
func (c *Client) All(ctx context.Context) (all []api.Instance, err error) {
	err = pages(ctx, c, "admin/instances", url.Values{}, func(page api.AdminInstances) (int, string) {
		all = append(all, page.Instances.Instances...)
		return len(page.Instances.Instances), page.Next
	})
	return all, err
}

// Adopt restores the record of an instance that the ledger lost.
func (c *Client) Adopt(ctx context.Context, body api.Adopt) (api.Instance, error) {
	instance, _, err := change[api.Instance](ctx, c, http.MethodPost, "admin/adopt", body)
	return instance, err
}

// AcceptClock lets expiry continue, and returns why it was held; "": it was not.
func (c *Client) AcceptClock(ctx context.Context) (string, error) {
	clock, _, err := change[api.Clock](ctx, c, http.MethodPost, "admin/clock", nil)
	return clock.Held, err
}

// Instance returns an instance.
func (c *Client) Instance(ctx context.Context, id string) (api.Instance, error) {
	path, err := idPath(id)
	if err != nil {
		return api.Instance{}, err
	}
	return get[api.Instance](ctx, c, path, nil)
}

// Destroy begins to destroy an instance.
func (c *Client) Destroy(ctx context.Context, id string) (api.Instance, error) {
	return c.verb(ctx, http.MethodDelete, id, "", nil)
}

// Verb applies one of the API's verbs to an instance. The body is the verb's type in
// package api; nil: none.
func (c *Client) Verb(ctx context.Context, id, verb string, body any) (api.Instance, error) {
	return c.verb(ctx, http.MethodPost, id, "/"+verb, body)
}

func (c *Client) verb(ctx context.Context, method, id, verb string, body any) (api.Instance, error) {
	path, err := idPath(id)
	if err != nil {
		return api.Instance{}, err
	}
	instance, _, err := change[api.Instance](ctx, c, method, path+verb, body)
	return instance, err
}

// Runs returns the known runs of an instance, newest first.
func (c *Client) Runs(ctx context.Context, id string) ([]api.Run, error) {
	path, err := idPath(id)
	if err != nil {
		return nil, err
	}
	all, err := get[api.Runs](ctx, c, path+"/runs", nil)
	return all.Runs, err
}

// Outputs returns the outputs that the template lists.
func (c *Client) Outputs(ctx context.Context, id string) (api.Outputs, error) {
	path, err := idPath(id)
	if err != nil {
		return api.Outputs{}, err
	}
	return get[api.Outputs](ctx, c, path+"/outputs", nil)
}

// ShowSensitive returns one output from the state. The server records the access.
func (c *Client) ShowSensitive(ctx context.Context, id, name string) (api.ShownOutput, error) {
	path, err := idPath(id)
	if err != nil {
		return api.ShownOutput{}, err
	}
	output, _, err := change[api.ShownOutput](ctx, c, http.MethodPost, path+"/outputs/reveal", api.ShowSensitive{Name: name})
	return output, err
}

// Plan returns the plan of a run as text. The caller closes it.
func (c *Client) Plan(ctx context.Context, id string, n int) (io.ReadCloser, error) {
	return c.open(ctx, id, n, "plan", nil)
}

// Log returns the log of a run so far. The caller closes it.
func (c *Client) Log(ctx context.Context, id string, n int) (io.ReadCloser, error) {
	return c.open(ctx, id, n, "log", nil)
}

func (c *Client) open(ctx context.Context, id string, n int, what string, header http.Header) (io.ReadCloser, error) {
	path, err := idPath(id)
	if err != nil {
		return nil, err
	}
	return c.Front.Open(ctx, root+path+"/runs/"+strconv.Itoa(n)+"/"+what, nil, header)
}
