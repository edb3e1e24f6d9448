// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/dirhash"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"
)

// plainMain is a general OCI client for the benchmarks, built from the libraries of oras:
// "copy FROM TO DIR" like oras cp, "push DIR TO" like oras push, each followed by h1 of the
// zips in DIR.
func plainMain() {
	err := fmt.Errorf("plain %v", os.Args[1:])
	switch {
	case len(os.Args) == 5 && os.Args[1] == "copy":
		err = plainCopy(context.Background(), os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 4 && os.Args[1] == "push":
		err = plainPush(context.Background(), os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func plainCopy(ctx context.Context, from, to, dir string) error {
	src, err := remote.NewRepository(from)
	if err != nil {
		return err
	}
	src.PlainHTTP = true
	if err := plainTo(ctx, src, to); err != nil {
		return err
	}
	return hashZips(dir)
}

func plainPush(ctx context.Context, dir, to string) error {
	store, err := file.New(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	zips, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	if err != nil {
		return err
	}
	var layers []ocispec.Descriptor
	for _, zip := range zips {
		layer, err := store.Add(ctx, filepath.Base(zip), "archive/zip", zip)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	root, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "application/x.plain", oras.PackManifestOptions{Layers: layers})
	if err != nil {
		return err
	}
	if err := store.Tag(ctx, root, plainTag); err != nil {
		return err
	}
	if err := plainTo(ctx, store, to); err != nil {
		return err
	}
	return hashZips(dir)
}

const plainTag = "1.0.0"

func plainTo(ctx context.Context, src oras.ReadOnlyTarget, to string) error {
	dst, err := remote.NewRepository(to)
	if err != nil {
		return err
	}
	dst.PlainHTTP = true
	_, err = oras.Copy(ctx, src, plainTag, dst, plainTag, oras.DefaultCopyOptions)
	return err
}

func hashZips(dir string) error {
	zips, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	if err != nil || len(zips) == 0 {
		return fmt.Errorf("no zips in %s: %w", dir, err)
	}
	for _, zip := range zips {
		if _, err := dirhash.HashZip(zip, dirhash.Hash1); err != nil {
			return err
		}
	}
	return nil
}
