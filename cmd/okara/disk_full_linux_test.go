// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
)

const smallDisk = 20 << 20

// newSmallDisk mounts a small file system.
func newSmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDisk)); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// free returns the free bytes of the disk.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	_, n, ok := embedded.Space(dir)
	if !ok {
		t.Fatal("the size of the disk is not known")
	}
	return n
}

// fillDisk writes until nothing more fits, and returns the file.
func fillDisk(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "of-others")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(page)
	}
	must.Succeed(t, f.Close())
	return file
}

// newNoisyModule returns a folder whose archive has about that size.
func newNoisyModule(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	noise := make([]byte, size)
	rand.Read(noise) // never fails
	for name, content := range map[string][]byte{"main.tf": []byte("output \"a\" {\n  value = 1\n}\n"), "noise.bin": noise} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

// lockState locks a state and unlocks it.
func lockState(t *testing.T, url string) {
	t.Helper()
	body := fmt.Sprintf(`{"ID":%q,"Operation":"test"}`, rand.Text())
	for _, method := range []string{"LOCK", "UNLOCK"} {
		if text, code := send(t, method, url, "", body); code != http.StatusOK {
			t.Errorf("%s: %d %s", method, code, text)
		}
	}
}

// mustLockAndWrite makes the requests that an apply makes to a server.
func mustLockAndWrite(t *testing.T, p *serveProcess, serial int) {
	t.Helper()
	lockState(t, p.url+"/state/shop/default")
	host := strings.TrimPrefix(p.url, "http://")
	mustOkara(t, "state", "push", host+"/state/shop", newFile(t, "s.tfstate", stateText("one", serial)))
	if got := mustOkara(t, "state", "pull", host+"/state/shop"); !strings.Contains(got, fmt.Sprintf(`"serial":%d,`, serial)) {
		t.Errorf("state %d was stored as %.60s", serial, got)
	}
}

// TestFullDiskOfOthers: another program fills the disk of a server. Locks and states still
// work, everything else is refused with a message, and nothing has to be repaired once there
// is space.
//
// Shows: mistakes 36 | a full disk stopped locks and states; a failed upload kept its space for a
// day | a reserve for them, space is freed at once, 507 with an explanation for all other requests,
// `/readyz` 503; tested on a small file system that is really full
func TestFullDiskOfOthers(t *testing.T) {
	disk := newSmallDisk(t)
	p := newServeProcess(t, nil, "--storage", disk)
	mustLockAndWrite(t, p, 1)
	before := fillDisk(t, disk)

	if got, code := send(t, http.MethodGet, p.url+"/readyz", "", ""); code != http.StatusServiceUnavailable || !strings.Contains(got, "disk of the storage folder is full") {
		t.Errorf("readyz on a full disk: %d %s", code, got)
	}
	module := newNoisyModule(t, 100<<10)
	for _, to := range [][]string{{"--server", p.url}, {"--registry", strings.TrimPrefix(p.url, "http://")}} {
		o := okara(t, append([]string{"publish", "module", module, "net/vpc/aws", "1.0.0"}, to...)...)
		if o.code != cli.ExitFailure || !strings.Contains(o.err, "no space left on device") || !strings.Contains(o.err, "hint: the registry's disk is full") {
			t.Errorf("publish %s: exit %d, %s", to[0], o.code, o.err)
		}
	}
	for serial := 2; serial < 12; serial++ {
		mustLockAndWrite(t, p, serial)
	}
	if log := p.log.String(); !strings.Contains(log, "no space left on device") || strings.Contains(log, "errno") {
		t.Errorf("the log says %s", log)
	}

	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait() // was killed
	p = newServeProcess(t, nil, "--storage", disk)
	mustLockAndWrite(t, p, 12)

	must.Succeed(t, os.Remove(before))
	get(t, p.url+"/readyz", "")
	mustOkara(t, "publish", "module", module, "net/vpc/aws", "1.0.0", "--server", p.url)
	if !strings.Contains(p.log.String(), "has space again") {
		t.Errorf("the log does not say that there is room: %s", p.log)
	}
}

// TestUploadThatFails: an upload that does not fit, and one whose client disconnects, free
// their space at once, and leave nothing.
//
// Shows: mistakes 36
func TestUploadThatFails(t *testing.T) {
	disk := newSmallDisk(t)
	p := newServeProcess(t, nil, "--storage", disk)
	mustLockAndWrite(t, p, 1)
	whole := free(t, disk)
	back := func() bool { return free(t, disk) > whole-(128<<10) } // links and folders remain

	module := newNoisyModule(t, smallDisk-(4<<20))
	for _, to := range [][]string{{"--server", p.url}, {"--registry", strings.TrimPrefix(p.url, "http://")}} {
		o := okara(t, append([]string{"publish", "module", module, "net/big/aws", "1.0.0"}, to...)...)
		if o.code != cli.ExitFailure || !strings.Contains(o.err, "no space left on device") || !strings.Contains(o.err, "hint: the registry's disk is full") {
			t.Errorf("publish %s: exit %d, %s", to[0], o.code, o.err)
		}
		waitFor(t, "the space is back after publish "+to[0], back)
	}
	if got, code := send(t, http.MethodGet, p.url+"/v1/modules/net/big/aws/versions", "", ""); code != http.StatusNotFound {
		t.Errorf("what was refused is listed: %d %s", code, got)
	}
	for _, method := range []string{http.MethodPatch, http.MethodPut} {
		conn := beginUpload(t, p.url, method, 10<<20)
		waitFor(t, "the upload arrives", func() bool { return free(t, disk) < whole-(3<<20) })
		conn.Close()
		waitFor(t, "the space is back after a cut "+method, back)
	}
	waitFor(t, "no folder of an upload is left", func() bool { // removed after its contents
		left, err := filepath.Glob(filepath.Join(disk, "registry/docker/registry/v2/repositories/*/*/*/*/_uploads/*"))
		return err == nil && !slices.ContainsFunc(left, func(dir string) bool {
			bytes, err := os.Stat(filepath.Join(dir, "data"))
			return err != nil || bytes.Size() > 0 // others were opened by a client that then gave up: okara admin gc removes them
		})
	})

	conn := beginUpload(t, p.url, http.MethodPatch, 10<<20)
	defer conn.Close()
	waitFor(t, "the upload arrives", func() bool { return free(t, disk) < whole-(3<<20) })
	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait() // was killed
	if back() {
		t.Fatal("the upload that a killed server had is gone")
	}
	if out := mustOkara(t, "admin", "gc", "--storage", disk, "--min-age", "24h"); !back() {
		t.Errorf("the space is not back after okara admin gc: %s", out)
	}
}

// beginUpload sends half of a blob of that size.
func beginUpload(t *testing.T, server, method string, size int) net.Conn {
	t.Helper()
	resp := must.Get(http.Post(server+"/v2/modules/net/cut/aws/blobs/uploads/", "", nil))(t)
	resp.Body.Close()
	at := must.Get(resp.Location())(t)
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(server, "http://")))(t)
	uri := at.RequestURI()
	if method == http.MethodPut {
		uri += "&digest=sha256:" + strings.Repeat("0", 64)
	}
	must.Get(fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", method, uri, at.Host, size))(t)
	must.Get(io.CopyN(conn, rand.Reader, int64(size/2)))(t)
	return conn
}
