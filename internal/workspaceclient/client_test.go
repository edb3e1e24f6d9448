// SPDX-License-Identifier: Apache-2.0

package workspaceclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/workspaceclient"
	"github.com/seed-141914ff/okara/oci"
)

// asked is a request that a server got.
type asked struct{ Method, Path, Body string }

// newServer starts a server that answers with answer, and records its requests.
func newServer(t *testing.T, answer func(r *http.Request) (int, string)) (*workspaceclient.Client, *[]asked) {
	t.Helper()
	var all []asked
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		all = append(all, asked{r.Method, r.URL.RequestURI(), string(b)})
		status, body := answer(r)
		w.Header().Set("Content-Type", "application/vnd.api+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	u := must.Get(url.Parse(s.URL))(t)
	return &workspaceclient.Client{Front: client.New(client.Options{Server: u, Pause: time.Millisecond})}, &all
}

const shop = `{"id":"ws-x","type":"workspaces","attributes":{"name":"shop","tag-names":["a","b"],"locked":true,"created-at":"2026-01-02T03:04:05Z"},
 "relationships":{"project":{"data":{"type":"projects","id":"prj-cmV0YWls"}}}}`

// TestList reads page after page, and stops with a server that always has another page.
func TestList(t *testing.T) {
	c, requests := newServer(t, func(r *http.Request) (int, string) {
		if r.URL.Query().Get("page[number]") == "1" {
			return 200, `{"data":[` + shop + `],"meta":{"pagination":{"next-page":2}}}`
		}
		return 200, `{"data":[{"attributes":{"name":"raw"},"relationships":{"project":{"data":{"id":"prj-RGVmYXVsdCBQcm9qZWN0"}}}}],"meta":{"pagination":{"next-page":null}}}`
	})
	got := must.Get(c.List(t.Context(), "acme", workspaceclient.Filter{Tags: []string{"a", "b"}, Project: "retail"}))(t)
	want := []workspaceclient.Workspace{
		{Organization: "acme", Name: "shop", Tags: []string{"a", "b"}, Project: "retail", Locked: true, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Organization: "acme", Name: "raw"},
	}
	must.Match(t, "list", got, want)
	if at := (*requests)[0].Path; !strings.HasPrefix(at, "/api/v2/organizations/acme/workspaces?") || !strings.Contains(at, "search%5Btags%5D=a%2Cb") || !strings.Contains(at, "prj-cmV0YWls") {
		t.Errorf("asked for %s", at)
	}
	endless, _ := newServer(t, func(*http.Request) (int, string) {
		return 200, `{"data":[` + strings.Repeat(shop+",", 999) + shop + `],"meta":{"pagination":{"next-page":7}}}`
	})
	if all, err := endless.List(t.Context(), "acme", workspaceclient.Filter{}); err != nil || len(all) != 10_000 {
		t.Errorf("%d workspaces, %v", len(all), err)
	}
	empty, _ := newServer(t, func(*http.Request) (int, string) { return 200, `{"data":[],"meta":{"pagination":{"next-page":2}}}` })
	if all, err := empty.List(t.Context(), "acme", workspaceclient.Filter{}); err != nil || all == nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestCreate tells an existing workspace from a refused body.
func TestCreate(t *testing.T) {
	there := false
	c, requests := newServer(t, func(r *http.Request) (int, string) {
		switch {
		case r.Method == http.MethodGet && there:
			return 200, `{"data":` + shop + `}`
		case r.Method == http.MethodGet:
			return 404, `{"errors":[{"status":"404","title":"resource not found"}]}`
		case strings.Contains(r.URL.Path, "full"):
			return 422, `{"errors":[{"status":"422","title":"invalid attribute","detail":"it is not taken"}]}`
		}
		return 201, `{"data":` + shop + `}`
	})
	p := must.Get(workspaceclient.ParseRef("acme/shop"))(t)
	if w, err := c.Create(t.Context(), p, workspaceclient.New{Tags: map[string]string{"env": "prod", "net": ""}, Project: "retail", Description: "d"}); err != nil || w.Name != "shop" {
		t.Error(w, err)
	}
	var got any
	must.Succeed(t, json.Unmarshal([]byte((*requests)[0].Body), &got))
	var want any
	must.Succeed(t, json.Unmarshal([]byte(`{"data":{"type":"workspaces","attributes":{"name":"shop","description":"d"},"relationships":{
		"project":{"data":{"type":"projects","id":"prj-cmV0YWls"}},
		"tag-bindings":{"data":[{"type":"tag-bindings","attributes":{"key":"env","value":"prod"}},{"type":"tag-bindings","attributes":{"key":"net","value":""}}]}}}}`), &want))
	must.Match(t, "body", got, want)
	p = workspaceclient.Ref{Organization: "full", Name: "shop"}
	if _, err := c.Create(t.Context(), p, workspaceclient.New{}); errors.Is(err, oci.ErrExists) || err == nil || !strings.Contains(err.Error(), "it is not taken") {
		t.Errorf("a body that is not taken: %v", err)
	}
	there = true
	if _, err := c.Create(t.Context(), p, workspaceclient.New{}); !errors.Is(err, oci.ErrExists) {
		t.Errorf("one that is there: %v", err)
	}
}

func TestDelete(t *testing.T) {
	c, requests := newServer(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodPost {
			return 409, `{"errors":[{"status":"409","title":"workspace has resources"}]}`
		}
		return 204, ""
	})
	p := workspaceclient.Ref{Organization: "acme", Name: "a b/ü"}
	if err := c.Delete(context.Background(), p, false); !errors.Is(err, oci.ErrExists) || !strings.Contains(fmt.Sprint(err), "has resources") {
		t.Error(err)
	}
	must.Succeed(t, c.Delete(t.Context(), p, true))
	const at = "/api/v2/organizations/acme/workspaces/a%20b%2F%C3%BC"
	must.Match(t, "asked", *requests, []asked{{"POST", at + "/actions/safe-delete", ""}, {"DELETE", at, ""}})
}

func TestParseRef(t *testing.T) {
	for s, ok := range map[string]bool{
		"acme/shop": true, "acme/a/b": true, "acme/Ü": true, "acme": false, "acme/": false, "/shop": false, "acme/..": false, "../x": false, "./x": false,
		"acme/a\nb": false, "acme/\xff": false, "acme/" + strings.Repeat("a", 256): false,
	} {
		if p, err := workspaceclient.ParseRef(s); (err == nil) != ok || ok && p.String() != s || !ok && !errors.Is(err, workspaceclient.ErrName) {
			t.Errorf("%q: %v, %v", s, p, err)
		}
	}
}
