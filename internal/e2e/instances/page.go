// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// formKey is the form field that makes a form sent twice count once.
var formKey = regexp.MustCompile(`name="key" value="([^"]+)"`)

// openLink opens a link that fills the form of a template, and returns what its form would
// send, like a browser. This demonstration does not run a real one.
func (p *replica) openLink(ctx context.Context, who, link string) (url.Values, error) {
	resp, err := p.page(ctx, who, link, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	key := formKey.FindSubmatch(b)
	if resp.StatusCode != http.StatusOK || key == nil || !bytes.Contains(b, []byte("The link that you followed")) {
		return nil, fmt.Errorf("%s: %s %s", link, resp.Status, b)
	}
	u, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	form := u.Query()
	form.Set("key", string(key[1]))
	return form, nil
}

// send sends a form, and returns the id of the instance that the answer redirects to.
func (p *replica) send(ctx context.Context, who, link string, form url.Values) (string, error) {
	resp, err := p.page(ctx, who, link, form)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return "", fmt.Errorf("%s: %s %s, %w", link, resp.Status, b, err)
	}
	return path.Base(resp.Header.Get("Location")), nil
}

// page requests a page, or sends its form.
func (p *replica) page(ctx context.Context, who, link string, form url.Values) (*http.Response, error) {
	method := http.MethodGet
	body := ""
	if form != nil {
		method = http.MethodPost
		body = form.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, p.url+"/ui/"+link, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+p.w.issuer.token(who))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", p.url)
	}
	return p.client.Transport.RoundTrip(r) // redirects are not followed: the target names the instance
}
