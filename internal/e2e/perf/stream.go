// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Parameters of a stream: the number of concurrent clients, and how often each downloads
// the archive of a module.
const (
	streamBytes   = 200 << 20
	streamClients = 5
	streamEach    = 2
	streamTimes   = 3
)

// streams measures archives through a front-end without a cache, from a separate registry
// and from the built-in one, beside the registry alone.
func streams(programs []program, t tools) ([]row, error) {
	if t.registry == "" {
		return nil, nil
	}
	address, stop, err := startRegistry(t.registry, programs[0].dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	module := filepath.Join(programs[0].dir, "large")
	if err := writeLarge(module); err != nil {
		return nil, err
	}
	through := map[string]string{}
	within := map[string]string{}
	for _, p := range programs {
		for urls, at := range map[*map[string]string][]string{&through: {"--registry", address}, &within: nil} {
			s, err := startServer(exec.Command(p.file, append([]string{"serve", "--listen", "127.0.0.1:0", "--storage", filepath.Join(p.dir, "streams"), "--archive-redirect", "never"}, at...)...))
			if err != nil {
				return nil, err
			}
			defer s.stop()
			host := address
			if at == nil {
				host = strings.TrimPrefix(s.url, "http://")
			}
			if (*urls)[p.file], err = p.archive(s.url, host, module); err != nil {
				return nil, err
			}
		}
	}
	alone, err := blobOf(address, through[programs[0].file])
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, way := range []struct {
		what string
		urls map[string]string
	}{
		{"archives of 200 MiB through a front-end, for 5 clients of OpenTofu", through},
		{"the same from the built-in registry", within},
	} {
		var beside []float64
		r, err := inTurn(row{what: way.what, unit: "MB/s"}, programs, streamTimes, func(p program) (float64, error) {
			rate, err := download(alone)
			if err != nil {
				return 0, err
			}
			beside = append(beside, rate)
			return download(way.urls[p.file])
		})
		if err != nil {
			return nil, err
		}
		r.beside = median(beside)
		rows = append(rows, r)
	}
	return rows, nil
}

// startRegistry starts the registry of the distribution project, and returns the address on
// which it listens.
func startRegistry(file, dir string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil { // the registry takes the port
		return "", nil, err
	}
	config := filepath.Join(dir, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(dir, "registry"), address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(file, "serve", config)
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it has no data to lose
		_ = cmd.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if resp, err := http.Get("http://" + address + "/v2/"); err == nil {
			return address, stop, resp.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, errors.New("the registry does not answer")
}

// writeLarge makes a module that does not compress, in two files, since a file may have at
// most 128 MiB.
func writeLarge(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("variable \"x\" {}\n"), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"one.bin", "two.bin"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		_, err = io.CopyN(f, rand.Reader, streamBytes/2)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// archive publishes the module and returns its archive address at a front-end.
func (p program) archive(front, registry, module string) (string, error) {
	out, err := exec.Command(p.file, "publish", "module", module, "net/large/aws", "1.0.0", "--registry", registry, "--quiet").CombinedOutput()
	if err != nil && !strings.Contains(string(out), "exists") {
		return "", fmt.Errorf("publish: %w\n%s", err, out)
	}
	resp, err := http.Get(front + "/v1/modules/net/large/aws/1.0.0/download")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	at, err := resp.Request.URL.Parse(resp.Header.Get("X-Terraform-Get"))
	if err != nil || resp.StatusCode != http.StatusNoContent {
		return "", fmt.Errorf("the download is answered with %s: %w", resp.Status, err)
	}
	at.RawQuery = "" // the checksum is for the client
	return at.String(), nil
}

// blobOf returns the address in a registry of the blob behind a front-end's archive address,
// whose path is /archives/TICKET/REPOSITORY/HEX/NAME.
func blobOf(registry, archive string) (string, error) {
	u, err := url.Parse(archive)
	if err != nil {
		return "", err
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 5 || parts[0] != "archives" {
		return "", fmt.Errorf("%s is not the address of an archive", archive)
	}
	last := len(parts) - 2
	return "http://" + registry + "/v2/" + strings.Join(parts[2:last], "/") + "/blobs/sha256:" + parts[last], nil
}

// download lets all clients download at once, and returns megabytes per second.
func download(address string) (float64, error) {
	errs := make([]error, streamClients)
	var clients sync.WaitGroup
	begin := time.Now()
	for i := range streamClients {
		clients.Go(func() {
			for range streamEach {
				if errs[i] = drain(address); errs[i] != nil {
					return
				}
			}
		})
	}
	clients.Wait()
	return streamClients * streamEach * streamBytes / 1e6 / time.Since(begin).Seconds(), errors.Join(errs...)
}

// drain downloads as OpenTofu does, which compares the archive with a checksum afterwards.
func drain(address string) error {
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "OpenTofu/1.12.6 (+https://www.opentofu.org)")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n < streamBytes) {
		err = fmt.Errorf("%s: answered with %s and %d bytes", address, resp.Status, n)
	}
	return err
}
