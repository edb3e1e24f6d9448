// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// githubFresh is how long a token is reused. GitHub's tokens are valid for five minutes.
const githubFresh = 2 * time.Minute

// GitHubToken returns a function that requests a token of the running job from GitHub
// Actions. The runner gives endpoint and secret to a job that has `permissions: id-token:
// write`. Server and Token of the options are ignored.
//
// https://docs.github.com/actions/reference/security/oidc
func GitHubToken(o Options, endpoint *url.URL, secret, audience string) TokenFunc {
	o.Server = endpoint
	o.Progress = nil
	o.Token = func(context.Context) (string, error) { return secret, nil }
	c := New(o)
	q := endpoint.Query()
	q.Set("audience", audience)
	var mu sync.Mutex // guards the variables below
	var token string
	var asked time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if token != "" && time.Since(asked) < githubFresh {
			return token, nil
		}
		var out struct {
			Value string `json:"value"`
		}
		asked = time.Now()
		_, err := c.send(ctx, http.MethodGet, "", q, nil, &out)
		if err == nil && out.Value == "" {
			err = errors.New("no token in the response")
		}
		if err != nil {
			return "", fmt.Errorf("request a token from GitHub Actions: %w", err)
		}
		token = out.Value
		return token, nil
	}
}
