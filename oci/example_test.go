// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/oci"
)

// exampleRegistry returns a registry in memory for the examples below.
func exampleRegistry() (host string, stop func()) {
	h, err := embedded.New("", embedded.Options{})
	if err != nil {
		panic(err)
	}
	s := httptest.NewServer(h)
	return strings.TrimPrefix(s.URL, "http://"), s.Close
}

// An artifact is complete before a tag names it.
func ExampleRepo_Push() {
	host, stop := exampleRegistry()
	defer stop()
	ctx := context.Background()

	repo, err := oci.OpenRepo(host+"/acme/notes", oci.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	note := oci.BytesBlob("text/plain", []byte("remember the milk"))
	manifest, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: "application/vnd.example.note",
		Config:       oci.EmptyBlob().Descriptor,
		Layers:       []oci.Descriptor{note.Descriptor},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := repo.Push(ctx, oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), note}, Root: manifest}); err != nil {
		fmt.Println(err)
		return
	}
	if err := repo.PutTag(ctx, "today", manifest); err != nil {
		fmt.Println(err)
		return
	}

	got, err := repo.Fetch(ctx, "today")
	if err != nil {
		fmt.Println(err)
		return
	}
	image, err := got.Image()
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := repo.ReadBlob(ctx, image.Layers[0], 1<<10)
	fmt.Printf("%s %v\n", text, err)
	// Output: remember the milk <nil>
}

// Errors are distinguished by their sentinels, never by their text.
func ExampleRepo_Resolve() {
	host, stop := exampleRegistry()
	defer stop()

	client, err := oci.New(host+"/acme", oci.Options{UserAgent: "example/1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	repo, err := client.Repo("notes")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = repo.Resolve(context.Background(), "tomorrow")
	fmt.Println(errors.Is(err, oci.ErrNotFound))
	// Output: true
}

// Tags come page by page, so a loop may end early.
func ExampleRepo_Tags() {
	host, stop := exampleRegistry()
	defer stop()
	ctx := context.Background()

	repo, err := oci.OpenRepo(host+"/acme/notes", oci.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	manifest, err := oci.NewManifest(ocispec.Manifest{Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{oci.EmptyBlob().Descriptor}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := repo.Push(ctx, oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}, Root: manifest}); err != nil {
		fmt.Println(err)
		return
	}
	for _, tag := range []string{"1.0.0", "1.1.0"} {
		if err := repo.PutTag(ctx, tag, manifest); err != nil {
			fmt.Println(err)
			return
		}
	}
	for tag, err := range repo.Tags(ctx) {
		fmt.Println(tag, err)
	}
	// Output:
	// 1.0.0 <nil>
	// 1.1.0 <nil>
}
