// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func Example() {
	registry, err := embedded.New("", embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(registry)
	defer server.Close()
	repo, err := oci.OpenRepo(strings.TrimPrefix(server.URL, "http://")+"/infra/state", oci.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	store := statebackend.New(repo, statebackend.Options{})

	lock, err := store.Lock(ctx, "prod", statebackend.LockInfo{Who: "alice"})
	if err != nil {
		fmt.Println(err)
		return
	}
	version, err := lock.Put(ctx, []byte(`{"version":4,"serial":1,"lineage":"a"}`))
	fmt.Println("version", version.N, "serial", version.Serial, err)
	fmt.Println(lock.Unlock(ctx))

	state, _, err := store.Get(ctx, "prod")
	fmt.Println(string(state), err)
	// Output:
	// version 1 serial 1 <nil>
	// <nil>
	// {"version":4,"serial":1,"lineage":"a"} <nil>
}
