// SPDX-License-Identifier: Apache-2.0

package portalclient

import (
	"context"
	"crypto/rand"
	"fmt"
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
	// Key is the idempotency key of the next change, to repeat one whose answer was lost;
	// "": each change gets a new key. A key is used for one change only.
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

// get reads the resource at a path.
func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var v T
	_, err := c.Front.Call(ctx, http.MethodGet, root+path, q, nil, nil, &v)
	return v, err
}

// change requests a change, and returns its result.
func change[T any](ctx context.Context, c *Client, method, path string, body any) (T, int, error) {
	var v T
	key := c.Key
	if key == "" {
		key = rand.Text()
	}
	status, err := c.Front.Call(ctx, method, root+path, nil, http.Header{api.IdempotencyKey: {key}}, body, &v)
	return v, status, err
}

// idPath returns the path of an instance. An invalid ID is not sent, since it would
// change the path.
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

// pages reads a list page by page. add stores a page, and returns the number of its
// entries and where the next page begins, "" after the last. Reading stops after
// maxListed entries, or at a page without entries.
func pages[T any](ctx context.Context, c *Client, path string, q url.Values, add func(T) (n int, next string)) error {
	q.Set("limit", strconv.Itoa(pageSize))
	for all := 0; all < maxListed; {
		page, err := get[T](ctx, c, path, q)
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
	err = pages(ctx, c, "templates", url.Values{}, func(page api.Templates) (int, string) {
		all = append(all, page.Templates...)
		return len(page.Templates), page.Next
	})
	return all, err
}

// Template returns a template; name is NAMESPACE/NAME.
func (c *Client) Template(ctx context.Context, name string) (api.Template, error) {
	return get[api.Template](ctx, c, "templates/"+name, nil)
}

// Pause stops new instances of a template until [Client.Resume].
func (c *Client) Pause(ctx context.Context, name, reason string) (api.Template, error) {
	t, _, err := change[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/pause", api.Reason{Reason: reason})
	return t, err
}

// Resume allows new instances of a template again.
func (c *Client) Resume(ctx context.Context, name string) (api.Template, error) {
	t, _, err := change[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/resume", nil)
	return t, err
}
