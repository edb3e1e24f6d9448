// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/oci"
)

// Client accesses the API of one front-end. It is safe for concurrent use.
type Client struct {
	Front *client.Client
	// Key is the idempotency key of the next change only, to repeat a lost one; "": a new one each.
	Key string
}

// root is the path of the API below the address of a server.
const root = "api/v1/"

const (
	// pageSize is how many entries of a list are requested at once.
	pageSize = 500
	// maxListed bounds how many entries a server can make this process store.
	maxListed = 100_000
)

func getResource[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var v T
	_, err := c.Front.Call(ctx, http.MethodGet, root+path, q, nil, nil, &v)
	return v, err
}

func requestChange[T any](ctx context.Context, c *Client, method, path string, body any) (T, int, error) {
	var v T
	key := c.Key
	if key == "" {
		key = rand.Text()
	}
	status, err := c.Front.Call(ctx, method, root+path, nil, http.Header{api.IdempotencyKey: {key}}, body, &v)
	return v, status, err
}

// idPath returns the path of an instance, for a valid ID.
func idPath(id string) (string, error) {
	if id == "" || len(id) > 40 {
		return "", fmt.Errorf("instance %.60q: %w", id, oci.ErrNotFound)
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return "", fmt.Errorf("instance %q: %w", id, oci.ErrNotFound)
		}
	}
	return "instances/" + id, nil
}

// readPages reads a list. add stores a page and returns its length and where the next one begins,
// or "". It stops after maxListed entries, or an empty page.
func readPages[T any](ctx context.Context, c *Client, path string, q url.Values, add func(T) (n int, next string)) error {
	q.Set("limit", strconv.Itoa(pageSize))
	for all := 0; all < maxListed; {
		page, err := getResource[T](ctx, c, path, q)
		if err != nil {
			return err
		}
		n, next := add(page)
		if n == 0 || next == "" {
			return nil
		}
		all += n
		q.Set("after", next)
	}
	return nil
}

// Templates returns the templates that the caller may see, by name.
func (c *Client) Templates(ctx context.Context) (all []api.Template, err error) {
	err = readPages(ctx, c, "templates", url.Values{}, func(page api.Templates) (int, string) {
		all = append(all, page.Templates...)
		return len(page.Templates), page.Next
	})
	return all, err
}

// Template returns a template; name is NAMESPACE/NAME.
func (c *Client) Template(ctx context.Context, name string) (api.Template, error) {
	return getResource[api.Template](ctx, c, "templates/"+name, nil)
}

// Pause stops new instances of a template until [Client.Resume].
func (c *Client) Pause(ctx context.Context, name, reason string) (api.Template, error) {
	t, _, err := requestChange[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/pause", api.Reason{Reason: reason})
	return t, err
}

// Resume allows new instances of a template again.
func (c *Client) Resume(ctx context.Context, name string) (api.Template, error) {
	t, _, err := requestChange[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/resume", nil)
	return t, err
}

// Filter selects the instances to list. An empty field matches any.
type Filter struct {
	Owner    string // me, mine (including groups), offered (to the caller) or KIND:ID
	Template string // glob
	Phase    string // phases with commas between them, or live
}

// Instances returns the instances that the caller may see, newest first.
func (c *Client) Instances(ctx context.Context, f Filter) (all api.Instances, err error) {
	q := url.Values{}
	for name, v := range map[string]string{"owner": f.Owner, "template": f.Template, "phase": f.Phase} {
		if v != "" {
			q.Set(name, v)
		}
	}
	err = readPages(ctx, c, "instances", q, func(page api.Instances) (int, string) {
		n := len(page.Instances)
		before := all.Instances
		all = page
		all.Instances = append(before, page.Instances...)
		return n, page.Next
	})
	return all, err
}

// Create launches a template: status 201 if made or claimed, 200 if it existed, 202 if it waits.
func (c *Client) Create(ctx context.Context, body api.Create) (instance api.Instance, status int, err error) {
	return requestChange[api.Instance](ctx, c, http.MethodPost, "instances", body)
}

// All returns every instance in the ledger, for admins.
func (c *Client) All(ctx context.Context) (all []api.Instance, err error) {
	err = readPages(ctx, c, "admin/instances", url.Values{}, func(page api.AdminInstances) (int, string) {
		all = append(all, page.Instances.Instances...)
		return len(page.Instances.Instances), page.Next
	})
	return all, err
}

// Adopt restores the record of an instance that the ledger lost.
func (c *Client) Adopt(ctx context.Context, body api.Adopt) (api.Instance, error) {
	instance, _, err := requestChange[api.Instance](ctx, c, http.MethodPost, "admin/adopt", body)
	return instance, err
}

// AcceptClock lets expiry continue, and returns why it was held; "": it was not.
func (c *Client) AcceptClock(ctx context.Context) (string, error) {
	clock, _, err := requestChange[api.Clock](ctx, c, http.MethodPost, "admin/clock", nil)
	return clock.Held, err
}

// ofInstance requests something of an instance: the method GET without a body, or a change.
func ofInstance[T any](ctx context.Context, c *Client, method, id, rest string, body any) (v T, err error) {
	path, err := idPath(id)
	switch {
	case err != nil:
		return v, err
	case method == http.MethodGet:
		return getResource[T](ctx, c, path+rest, nil)
	}
	v, _, err = requestChange[T](ctx, c, method, path+rest, body)
	return v, err
}

// Instance returns an instance.
func (c *Client) Instance(ctx context.Context, id string) (api.Instance, error) {
	return ofInstance[api.Instance](ctx, c, http.MethodGet, id, "", nil)
}

// Destroy begins to destroy an instance.
func (c *Client) Destroy(ctx context.Context, id string) (api.Instance, error) {
	return ofInstance[api.Instance](ctx, c, http.MethodDelete, id, "", nil)
}

// Verb applies one of the API's verbs to an instance. body is its type in package api, or nil.
func (c *Client) Verb(ctx context.Context, id, verb string, body any) (api.Instance, error) {
	return ofInstance[api.Instance](ctx, c, http.MethodPost, id, "/"+verb, body)
}

// Runs returns the known runs of an instance, newest first.
func (c *Client) Runs(ctx context.Context, id string) ([]api.Run, error) {
	all, err := ofInstance[api.Runs](ctx, c, http.MethodGet, id, "/runs", nil)
	return all.Runs, err
}

// Outputs returns the outputs that the template lists.
func (c *Client) Outputs(ctx context.Context, id string) (api.Outputs, error) {
	return ofInstance[api.Outputs](ctx, c, http.MethodGet, id, "/outputs", nil)
}

// ShowSensitive returns one output from the state. The server records the access.
func (c *Client) ShowSensitive(ctx context.Context, id, name string) (api.ShownOutput, error) {
	return ofInstance[api.ShownOutput](ctx, c, http.MethodPost, id, "/outputs/reveal", api.ShowSensitive{Name: name})
}

// Plan returns the plan of a run as text. The caller closes it.
func (c *Client) Plan(ctx context.Context, id string, n int) (io.ReadCloser, error) {
	return c.openRunFile(ctx, id, n, "plan", nil)
}

// Log returns the log of a run so far. The caller closes it.
func (c *Client) Log(ctx context.Context, id string, n int) (io.ReadCloser, error) {
	return c.openRunFile(ctx, id, n, "log", nil)
}

func (c *Client) openRunFile(ctx context.Context, id string, n int, what string, header http.Header) (io.ReadCloser, error) {
	path, err := idPath(id)
	if err != nil {
		return nil, err
	}
	return c.Front.Open(ctx, root+path+"/runs/"+strconv.Itoa(n)+"/"+what, nil, header)
}
