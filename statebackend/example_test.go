// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// exampleStore returns a store in a registry in memory for the examples below.
func exampleStore() (store *statebackend.Store, stop func()) {
	registry, err := embedded.New("", embedded.Options{})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(registry)
	repo, err := oci.OpenRepo(strings.TrimPrefix(server.URL, "http://")+"/infra/state", oci.Options{})
	if err != nil {
		panic(err)
	}
	return statebackend.New(repo, statebackend.Options{}), server.Close
}

func Example() {
	store, stop := exampleStore()
	defer stop()
	ctx := context.Background()

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

// Each write is a version, and the newest comes first.
func ExampleStore_History() {
	store, stop := exampleStore()
	defer stop()
	ctx := context.Background()

	err := store.Hold(ctx, "prod", statebackend.NewLockInfo("apply", "example/1"), func(l *statebackend.Lock) error {
		for serial := range 2 {
			if _, err := l.Put(ctx, fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"a"}`, serial+1)); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(err)
	for v, err := range store.History(ctx, "prod") {
		fmt.Println(v.N, v.Serial, v.Current, v.Operation, err)
	}
	old, _, err := store.GetVersion(ctx, "prod", 1)
	fmt.Println(string(old), err)
	// Output:
	// <nil>
	// 2 2 true apply <nil>
	// 1 1 false apply <nil>
	// {"version":4,"serial":1,"lineage":"a"} <nil>
}

// While a client holds the lock, another one learns who it is.
func ExampleStore_Lock() {
	store, stop := exampleStore()
	defer stop()
	ctx := context.Background()

	lock, err := store.Lock(ctx, "prod", statebackend.LockInfo{Who: "alice"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Lock(ctx, "prod", statebackend.LockInfo{Who: "bob"})
	if held, ok := errors.AsType[*statebackend.LockedError](err); ok {
		fmt.Println("held by", held.Held.Who)
	}
	fmt.Println(store.ForceUnlock(ctx, "prod", lock.Info().ID))
	_, err = lock.Put(ctx, []byte(`{"version":4,"serial":1,"lineage":"a"}`))
	fmt.Println(errors.Is(err, statebackend.ErrLockLost))
	// Output:
	// held by alice
	// <nil>
	// true
}
