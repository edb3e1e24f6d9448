// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

var layout = addr.Layout{Prefix: "acme"}

// unlisted is a transport to a registry that has no list of its repositories.
func unlisted(h http.Handler) http.RoundTripper {
	return &ocitest.Fault{
		Base: ocitest.Direct{Handler: h}, Times: -1, Do: ocitest.Status(http.StatusNotFound, 0),
		Match: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/_catalog") },
	}
}

func mustClient(t *testing.T, transport http.RoundTripper) *oci.Client {
	t.Helper()
	return must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: transport, Retry: oci.Retry{MaxAttempts: 1}}))(t)
}

func mustStates(t *testing.T, o states.Options) *states.States {
	t.Helper()
	o.Layout = layout
	return must.Get(states.New(o))(t)
}

// put writes states one after the other, as a tool does.
func put(t *testing.T, c *oci.Client, name string, contents ...string) {
	t.Helper()
	putWith(t, c, name, statebackend.Options{}, contents...)
}

// putWith is put by a store with these options.
func putWith(t *testing.T, c *oci.Client, name string, o statebackend.Options, contents ...string) {
	t.Helper()
	store := must.Get(states.Open(c, layout, name, o))(t)
	l := must.Get(store.Lock(t.Context(), "default", statebackend.LockInfo{ID: "a"}))(t)
	for _, state := range contents {
		must.Get(l.Put(t.Context(), []byte(state)))(t)
	}
	must.Succeed(t, l.Unlock(t.Context()))
}
