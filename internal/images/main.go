// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

const (
	user      = "65532:65532" // an arbitrary unprivileged user, as in other images without a system
	mediaSBOM = "application/spdx+json"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: images KO FILE TAG")
		os.Exit(2)
	}
	if err := buildImages(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// buildImages builds the checkout in the working directory.
func buildImages(ctx context.Context, ko, file, tag string) (err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	base, err := seedCache(filepath.Join(dir, "img"))
	if err != nil {
		return err
	}
	host, stop, err := serveRegistry(ctx)
	if err != nil {
		return err
	}
	defer stop()
	client, err := oci.New(host, oci.Options{})
	if err != nil {
		return err
	}
	released, _ := exec.CommandContext(ctx, "git", "describe", "--tags", "--exact-match").Output() // "" of any other commit
	stamp := "-ldflags=-X=github.com/seed-141914ff/okara/internal/buildinfo.release=" + strings.TrimSpace(string(released))
	var items []bundle.Item
	for _, program := range []struct{ dir, path string }{{".", "./cmd/okara"}, {"operator", "./cmd/okara-operator"}} {
		name := "images/" + filepath.Base(program.path)
		sboms := filepath.Join(dir, "sbom", filepath.Base(program.path))
		cmd := exec.CommandContext(ctx, ko, "build", program.path, "--bare", "--tags", tag, "--sbom-dir", sboms,
			"--platform", strings.Join(imagePlatforms(), ","), "--image-user", user)
		cmd.Dir = program.dir
		cmd.Env = append(os.Environ(), "KO_DOCKER_REPO="+host+"/"+name, "KO_DEFAULTBASEIMAGE="+base, "KOCACHE="+dir,
			"CGO_ENABLED=0", "GOFLAGS=-buildvcs=auto "+stamp, "SOURCE_DATE_EPOCH=0", "DOCKER_CONFIG="+dir)
		cmd.Stdout = os.Stderr
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("ko build %s: %w", program.path, err)
		}
		repo, err := client.Repo(name)
		if err != nil {
			return err
		}
		if err := attachSBOMs(ctx, repo, tag, sboms); err != nil {
			return err
		}
		items = append(items, bundle.Item{Name: name, Repo: repo, Tags: []string{tag}})
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	report, err := bundle.Create(ctx, depot.New(depot.Options{Client: client, Layout: addr.Layout{}}), file, items, bundle.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("%s: images/okara:%s and images/okara-operator:%s, %d blobs, %d bytes\n", file, tag, tag, report.Blobs, report.Bytes)
	return nil
}

// serveRegistry runs an in-memory registry in which the images are assembled.
func serveRegistry(ctx context.Context) (host string, stop func(), err error) {
	registry, err := embedded.New("", embedded.Options{})
	if err != nil {
		return "", nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, registry.Close())
	}
	server := &http.Server{Handler: registry, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with the Close below
	return l.Addr().String(), func() { _ = errors.Join(server.Close(), registry.Close()) }, nil
}

// attachSBOMs adds the SPDX documents of an image as referrers, each with its platform. They
// refer to the index, since a bundle contains the referrers of tagged manifests.
func attachSBOMs(ctx context.Context, repo *oci.Repo, tag, sboms string) error {
	image, err := repo.Resolve(ctx, tag)
	if err != nil {
		return err
	}
	for _, platform := range imagePlatforms() {
		file := filepath.Join(sboms, filepath.Base(repo.Name())+"-"+strings.ReplaceAll(platform, "/", "-")+".spdx.json")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		layer := oci.BytesBlob(mediaSBOM, text)
		config := oci.EmptyBlob()
		for _, b := range []oci.Blob{layer, config} {
			if err := repo.PushBlob(ctx, b); err != nil {
				return err
			}
		}
		m, err := oci.NewManifest(ocispec.Manifest{
			ArtifactType: mediaSBOM, Config: config.Descriptor, Layers: []oci.Descriptor{layer.Descriptor},
			Subject: &image, Annotations: map[string]string{ocispec.AnnotationTitle: filepath.Base(file)},
		})
		if err != nil {
			return err
		}
		if err := repo.PutReferrer(ctx, m, image); err != nil {
			return err
		}
	}
	return nil
}
