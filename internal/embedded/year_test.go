// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// yearServer is the directory that this binary serves, collecting, until it is killed.
const yearServer = "OKARA_TEST_SERVE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(yearServer); dir != "" {
		fmt.Fprintln(os.Stderr, serveForYear(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func serveForYear(dir string) error {
	registry, err := embedded.New(dir, embedded.Options{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			if _, err := registry.Collect(context.Background(), embedded.Collection{MinAge: time.Hour}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}()
	return http.Serve(l, registry)
}

// TestYear applies hourly, publishes daily, keeps the last, and kills the server: nothing
// acknowledged is lost, and little garbage stays. Two days, or OKARA_TEST_DAYS.
//
// Shows: mistakes 24
func TestYear(t *testing.T) {
	days := 2
	if n, err := strconv.Atoi(os.Getenv("OKARA_TEST_DAYS")); err == nil {
		days = n
	}
	const keepStates, keepModules = 10, 5
	dir := t.TempDir()
	y := &year{t: t, dir: dir}
	y.start()
	defer func() { y.kill() }()
	for hour := range days * 24 {
		if rand.N(8) == 0 { // during the following operations
			delay := rand.N(40 * time.Millisecond)
			killed := y.cmd
			time.AfterFunc(delay, func() { _ = killed.Process.Kill() }) // it may already be killed
		}
		y.apply(hour, keepStates)
		if hour%24 == 0 {
			y.publish(hour/24, keepModules)
		}
	}
	y.check()
	y.kill()
	age(t, dir)
	must.Get(embedded.Collect(t.Context(), dir, embedded.Collection{}))(t)
	y.start()
	y.check()
	used, reachable := space(t, dir), y.copy()
	t.Logf("%d days, %d kills: %d bytes used, %d reachable", days, y.kills, used, reachable)
	if used*10 > reachable*12 {
		t.Errorf("%d bytes used, more than 1.2 times the %d that are reachable", used, reachable)
	}
}

type year struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	host  string
	kills int

	states, modules []oci.Manifest // acknowledged and kept, oldest first
}

// start also ages the existing content, because days are short here.
func (y *year) start() {
	y.t.Helper()
	age(y.t, y.dir)
	cmd := exec.CommandContext(y.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), yearServer+"="+y.dir)
	var errText strings.Builder
	cmd.Stderr = &errText
	out := must.Get(cmd.StdoutPipe())(y.t)
	must.Succeed(y.t, cmd.Start())
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		y.t.Fatalf("server: %v, %v\n%s", err, cmd.Wait(), &errText)
	}
	y.cmd, y.host = cmd, strings.TrimSpace(string(line[:n]))
}

func (y *year) kill() {
	_ = y.cmd.Process.Kill() // it may already be dead
	_ = y.cmd.Wait()         // returns its exit status
	y.kills++
}

// do repeats f on a new server until it succeeds without a kill.
func (y *year) do(repository string, f func(r *oci.Repo) error) {
	y.t.Helper()
	for range 20 {
		r, err := oci.OpenRepo(y.host+"/"+repository, oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}})
		if err != nil {
			y.t.Fatal(err)
		}
		if err = f(r); err == nil {
			return
		}
		if !errors.Is(err, oci.ErrUnavailable) {
			y.t.Fatal(err)
		}
		y.kill()
		y.start()
	}
	y.t.Fatal("twenty servers in turn did not answer")
}

// apply takes a lock, writes a version, moves the pointer, and prunes.
func (y *year) apply(hour, keep int) {
	state, blob := image(y.t, nil, strings.Repeat(fmt.Sprintln("state", hour), 2000))
	claim, note := image(y.t, nil, fmt.Sprintln("claim", hour))
	y.do("state", func(r *oci.Repo) error {
		if err := tryPush(y.t, r, fmt.Sprint("locked-default-", hour), claim, note); err != nil {
			return err
		}
		if err := tryPush(y.t, r, fmt.Sprint("state-default-v", hour+1), state, blob); err != nil {
			return err
		}
		if err := r.PutTag(y.t.Context(), "state-default", state); err != nil {
			return err
		}
		return oci.IgnoreNotFound(r.Delete(y.t.Context(), claim.Descriptor))
	})
	y.states = append(y.states, state)
	if len(y.states) > keep {
		old := y.states[0]
		y.states = y.states[1:]
		y.do("state", func(r *oci.Repo) error { return oci.IgnoreNotFound(r.Delete(y.t.Context(), old.Descriptor)) })
	}
}

// publish pushes a version with a signature and removes an old one's tag.
func (y *year) publish(day, keep int) {
	module, blob := image(y.t, nil, strings.Repeat(fmt.Sprintln("module", day), 5000))
	signature, note := image(y.t, nil, fmt.Sprintln("signature", day))
	y.do("modules", func(r *oci.Repo) error {
		if err := tryPush(y.t, r, "sha256-"+module.Digest.Encoded()+".sig", signature, note); err != nil {
			return err
		}
		return tryPush(y.t, r, fmt.Sprintf("%d.0.0", day), module, blob)
	})
	y.modules = append(y.modules, module)
	if len(y.modules) > keep {
		y.modules = y.modules[1:]
		y.do("modules", func(r *oci.Repo) error {
			return oci.IgnoreNotFound(r.Untag(y.t.Context(), fmt.Sprintf("%d.0.0", day-keep)))
		})
	}
}

func tryPush(t *testing.T, r *oci.Repo, tag string, m oci.Manifest, blob oci.Blob) error {
	if _, err := r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{blob, oci.EmptyBlob()}, Root: m}); err != nil {
		return err
	}
	return r.PutTag(t.Context(), tag, m)
}

// check reads all kept content.
func (y *year) check() {
	for repository, list := range map[string][]oci.Manifest{"state": y.states, "modules": y.modules} {
		y.do(repository, func(r *oci.Repo) error {
			for _, m := range list {
				if _, err := r.Fetch(y.t.Context(), m.Digest.String()); err != nil {
					return err
				}
				mustHave(y.t, r, repository, m)
			}
			return nil
		})
	}
}

// copy writes every tag to a new registry and returns the space that it takes.
func (y *year) copy() int64 {
	dir := y.t.TempDir()
	to, stop := newRepo(y.t, dir, embedded.Options{})
	defer stop()
	for _, repository := range []string{"state", "modules"} {
		target := must.Get(oci.OpenRepo(to.Host()+"/"+repository, oci.Options{PlainHTTP: true}))(y.t)
		y.do(repository, func(r *oci.Repo) error {
			for tag, err := range r.Tags(y.t.Context()) {
				if err != nil {
					return err
				}
				m, err := r.Fetch(y.t.Context(), tag)
				if err != nil {
					y.t.Errorf("%s is listed: %v", tag, err)
					continue
				}
				img, err := m.Image()
				if err != nil {
					return err
				}
				b, err := r.ReadBlob(y.t.Context(), img.Layers[0], 1<<20)
				if err != nil {
					y.t.Errorf("%s: %v", tag, err)
					continue
				}
				push(y.t, target, tag, m, oci.BytesBlob(img.Layers[0].MediaType, b))
			}
			return nil
		})
	}
	return space(y.t, dir)
}

// space counts files by the block and directories as one.
func space(t *testing.T, dir string) (n int64) {
	t.Helper()
	const block = 4096
	must.Succeed(t, filepath.WalkDir(filepath.Join(dir, "docker"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			n += block
		} else {
			n += (info.Size() + block - 1) / block * block
		}
		return nil
	}))
	return n
}
