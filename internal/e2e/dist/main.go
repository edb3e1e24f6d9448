// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// provider says what is built: where its go.mod is, and how it is named.
type provider struct {
	module, pkg, version, out string
}

func (p provider) name() string { return path.Base(p.pkg) + "_" + p.version }

func run(args []string) error {
	if len(args) < 5 {
		return errors.New("usage: dist MODULE_DIR PACKAGE VERSION OUT OS_ARCH...")
	}
	p := provider{module: args[0], pkg: args[1], version: args[2], out: args[3]}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	platforms := slices.Compact(slices.Sorted(slices.Values(args[4:])))
	var names []string
	for _, platform := range platforms {
		name, err := p.pack(platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		names = append(names, name)
	}
	manifest, err := p.manifest()
	if err != nil {
		return err
	}
	return p.sums(append(names, manifest))
}

// pack builds the provider for one platform and zips it.
func (p provider) pack(platform string) (string, error) {
	goos, goarch, ok := strings.Cut(platform, "_")
	if !ok {
		return "", errors.New("not of the form os_arch")
	}
	dir, err := os.MkdirTemp("", "dist-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, path.Base(p.pkg)+"_v"+p.version)
	if goos == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-C", p.module, "-trimpath", "-ldflags", "-s -w", "-o", binary, p.pkg)
	build.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build: %w", err)
	}
	name := p.name() + "_" + platform + ".zip"
	return name, zipFile(filepath.Join(p.out, name), binary)
}

func zipFile(name, binary string) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	h := &zip.FileHeader{Name: filepath.Base(binary), Method: zip.Deflate}
	h.SetMode(0o755)
	h.Modified = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	w, err := z.CreateHeader(h)
	if err == nil {
		_, err = w.Write(data)
	}
	return errors.Join(err, z.Close(), f.Close())
}

// manifest copies the registry manifest of the provider's module.
func (p provider) manifest() (string, error) {
	list := exec.Command("go", "list", "-C", p.module, "-f", "{{.Dir}}", p.pkg)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", p.pkg, err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "terraform-registry-manifest.json"))
	if err != nil {
		return "", err
	}
	name := p.name() + "_manifest.json"
	return name, os.WriteFile(filepath.Join(p.out, name), data, 0o644)
}

// sums writes SHA256SUMS last, so that its presence means a complete folder.
func (p provider) sums(names []string) error {
	var b strings.Builder
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(p.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(p.out, p.name()+"_SHA256SUMS"), []byte(b.String()), 0o644)
}
