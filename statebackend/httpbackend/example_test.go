// SPDX-License-Identifier: Apache-2.0

package httpbackend_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/httpbackend"
)

// A server of your own keeps the states of backend "http" in a registry.
func Example() {
	registry, err := embedded.New("", embedded.Options{})
	if err != nil {
		panic(err)
	}
	stored := httptest.NewServer(registry)
	defer stored.Close()
	repo, err := oci.OpenRepo(strings.TrimPrefix(stored.URL, "http://")+"/infra/app", oci.Options{})
	if err != nil {
		panic(err)
	}
	app := statebackend.New(repo, statebackend.Options{StrictReads: true})
	server := httptest.NewServer(httpbackend.New(httpbackend.Options{
		Open: func(_ context.Context, name string) (*statebackend.Store, error) {
			if name != "app" {
				return nil, oci.ErrNotFound
			}
			return app, nil
		},
	}))
	defer server.Close()

	for _, step := range []struct{ method, at, body string }{
		{"LOCK", "/state/app/prod", `{"ID":"1","Who":"alice"}`},
		{"POST", "/state/app/prod?ID=1", `{"version":4,"serial":1,"lineage":"a"}`},
		{"LOCK", "/state/app/prod", `{"ID":"2","Who":"bob"}`},
		{"UNLOCK", "/state/app/prod", `{"ID":"1"}`},
		{"GET", "/state/app/prod", ""},
		{"GET", "/state/other/prod", ""},
	} {
		r, err := http.NewRequestWithContext(context.Background(), step.method, server.URL+step.at, strings.NewReader(step.body))
		if err != nil {
			panic(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		state, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(step.method, step.at, resp.StatusCode)
		if step.method == "GET" && resp.StatusCode == http.StatusOK {
			fmt.Println(string(state))
		}
	}
	// Output:
	// LOCK /state/app/prod 200
	// POST /state/app/prod?ID=1 200
	// LOCK /state/app/prod 423
	// UNLOCK /state/app/prod 200
	// GET /state/app/prod 200
	// {"version":4,"serial":1,"lineage":"a"}
	// GET /state/other/prod 404
}
