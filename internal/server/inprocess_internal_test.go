// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestInProcess streams a blob through the embedded registry's transport.
func TestInProcess(t *testing.T) {
	release := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			_, _ = w.Write([]byte("first"))
			<-release
			_, _ = w.Write([]byte("last"))
		case "/echo":
			w.Header().Set("Content-Length", r.Header.Get("X-Length"))
			_, _ = io.Copy(w, r.Body)
		case "/panic":
			panic("handler")
		case "/hang":
			<-r.Context().Done()
		}
	})
	client := &http.Client{Transport: inProcess{h}}
	resp := must.Get(client.Get("http://okara.invalid/stream"))(t)
	first := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first" {
		t.Fatalf("%q, %v", first, err)
	}
	close(release)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "last" {
		t.Errorf("%q, %v", rest, err)
	}
	body := make([]byte, 1<<20)
	rand.Read(body)
	resp = must.Get(client.Post("http://okara.invalid/echo", "", bytes.NewReader(body)))(t)
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(body), err)
	}
	if resp, err := client.Get("http://okara.invalid/panic"); err != nil || resp.StatusCode != 500 {
		t.Errorf("a panic: %v, %v", resp, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://okara.invalid/hang", nil)
	if _, err := client.Do(r); err == nil {
		t.Error("a request outlived its context")
	}
}

// TestOwnRegistryKeepsVersions: the rule of versions holds for the server too.
func TestOwnRegistryKeepsVersions(t *testing.T) {
	s := &Settings{Storage: t.TempDir(), GC: &GC{}}
	back := must.Get(s.newBackend(Env{}, NewMetrics(), addr.Layout{}))(t)
	t.Cleanup(func() { must.Succeed(t, back.own.Close()) })
	repo := must.Get(back.client.Repo("modules/net/vpc/aws"))(t)
	must.Get(repo.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}}))(t)
	var puts [2]error
	for i := range puts {
		m := must.Get(artifact.NewBare("a/b", map[string]string{"n": strconv.Itoa(i)}))(t)
		puts[i] = repo.PutTag(t.Context(), "1.0.0", m)
	}
	if puts[0] != nil || !errors.Is(puts[1], oci.ErrExists) {
		t.Errorf("got %v", puts)
	}
}
