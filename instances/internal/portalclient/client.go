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

// Client asks one front-end. It is safe for concurrent use.
type Client struct {
	Front *client.Client
	// Key is that of the next change, where it goes on with one whose answer got
	// lost; "": each change has a new one. It is good for one change.
	Key string
}

// root is where the API is below the address of a server.
const root = "api/v1/"

const (
	// pageSize is how many a list is asked for at once.
	pageSize = 500
	// maxListed bounds what a server makes this process keep.
	maxListed = 100_000
)

// get reads what a path names.
func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var v T
	_, err := c.Front.Call(ctx, http.MethodGet, root+path, q, nil, nil, &v)
	return v, err
}

// change asks for a change, and returns what came of it.
func change[T any](ctx context.Context, c *Client, method, path string, body any) (T, int, error) {
	var v T
	key := c.Key
	if key == "" {
		key = rand.Text()
	}
	status, err := c.Front.Call(ctx, method, root+path, nil, http.Header{api.IdempotencyKey: {key}}, body, &v)
	return v, status, err
}

// idPath is where an instance is. What nothing can be named is not asked for: the
// address would be another one.
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

// pages asks for a list page by page. Add keeps what one has, and returns how many
// that were and where the next page begins, "" for nowhere. A list without an end
// is left at its bound, and a page without an entry is the last one.
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

// Templates returns those that the caller may see, by name.
func (c *Client) Templates(ctx context.Context) (all []api.Template, err error) {
	err = pages(ctx, c, "templates", url.Values{}, func(page api.Templates) (int, string) {
		all = append(all, page.Templates...)
		return len(page.Templates), page.Next
	})
	return all, err
}

// Template returns one; name is NAMESPACE/NAME.
func (c *Client) Template(ctx context.Context, name string) (api.Template, error) {
	return get[api.Template](ctx, c, "templates/"+name, nil)
}

// Pause stops new instances of a template, Resume allows them.
func (c *Client) Pause(ctx context.Context, name, reason string) (api.Template, error) {
	t, _, err := change[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/pause", api.Reason{Reason: reason})
	return t, err
}

// Resume allows new instances of a template again.
func (c *Client) Resume(ctx context.Context, name string) (api.Template, error) {
	t, _, err := change[api.Template](ctx, c, http.MethodPost, "templates/"+name+"/resume", nil)
	return t, err
}
