// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// serveProcess is okara serve in a separate process.
type serveProcess struct {
	cmd *exec.Cmd
	url string
	log *lockedBuffer
}

func newServeProcess(t *testing.T, env []string, args ...string) *serveProcess {
	t.Helper()
	p := &serveProcess{log: &lockedBuffer{}}
	p.cmd = exec.CommandContext(t.Context(), "okara", append([]string{"serve", "--listen", "127.0.0.1:0", "--storage", t.TempDir()}, args...)...)
	p.cmd.Env = append(env, "HOME="+t.TempDir(), "PATH="+os.Getenv("PATH"))
	p.cmd.Stderr = p.log
	out := must.Get(p.cmd.StdoutPipe())(t)
	must.Succeed(t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended: %s", p.log)
	}
	p.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return p
}

func (p *serveProcess) signal(t *testing.T, s os.Signal) {
	t.Helper()
	must.Succeed(t, p.cmd.Process.Signal(s))
}

// publish stores a module of noise: link and hash.
func (p *serveProcess) publish(t *testing.T, client *http.Client, size int) (link string, sum []byte) {
	t.Helper()
	noise := make([]byte, size)
	rand.Read(noise) // never fails
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, content := range map[string][]byte{"main.tf": nil, "noise": noise} {
		f := must.Get(w.Create(name))(t)
		must.Get(f.Write(content))(t)
	}
	must.Succeed(t, w.Close())
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/v1/modules/net/vpc/aws/1.0.0", &archive))(t)
	put, err := client.Do(r)
	if err != nil || put.StatusCode != http.StatusCreated {
		t.Fatalf("publish: %v, %v", put, err)
	}
	put.Body.Close()
	resp := must.Get(client.Get(p.url + "/v1/modules/net/vpc/aws/1.0.0/download"))(t)
	resp.Body.Close()
	u := must.Get(resp.Request.URL.Parse(resp.Header.Get("X-Terraform-Get")))(t)
	resp = must.Get(client.Get(u.String()))(t)
	defer resp.Body.Close()
	h := sha256.New()
	must.Get(io.Copy(h, resp.Body))(t)
	if got, want := fmt.Sprintf(`"sha256:%x"`, h.Sum(nil)), resp.Header.Get("Etag"); got != want {
		t.Fatalf("the archive is %s, its ETag %s", got, want)
	}
	return u.String(), h.Sum(nil)
}

// slowClient reads little at a time, so that most of a download is still in the server.
func slowClient(t *testing.T) *http.Client {
	transport := &http.Transport{ReadBufferSize: 4 << 10, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestServeStops sends SIGTERM to a server in the middle of 50 downloads: it accepts no new
// connection, every download completes, and the exit code is 0. The next process knows how
// often the module was downloaded.
//
// Shows: opendepot 18
func TestServeStops(t *testing.T) {
	const downloads, size = 50, 8 << 20 // more than the buffers of a connection hold
	storage := t.TempDir()
	p := newServeProcess(t, nil, "--storage", storage)
	link, want := p.publish(t, http.DefaultClient, size)
	client := slowClient(t)
	type download struct {
		body io.ReadCloser
		hash hash.Hash
		err  error
	}
	running := make([]*download, downloads)
	for i := range running {
		resp, err := client.Get(link)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
		defer resp.Body.Close()
		running[i] = &download{body: resp.Body, hash: sha256.New()}
		must.Get(io.CopyN(running[i].hash, resp.Body, 1000))(t)
	}
	if metrics := get(t, p.url+"/metrics", ""); !strings.Contains(metrics, fmt.Sprintf("okara_archive_streams %d\n", downloads)) {
		t.Fatalf("not %d downloads are in the middle:\n%s", downloads, metrics)
	}
	p.signal(t, syscall.SIGTERM)
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			break // the shutdown has begun
		}
		conn.Close()
	}
	for left := downloads; left > 0; { // all of them in parallel, a little at a time
		for _, d := range running {
			if d.err != nil {
				continue
			}
			if _, d.err = io.CopyN(d.hash, d.body, 64<<10); d.err != nil {
				left--
			}
		}
	}
	for i, d := range running {
		if d.err != io.EOF || !bytes.Equal(d.hash.Sum(nil), want) {
			t.Errorf("download %d: %v, hash %x, want %x", i, d.err, d.hash.Sum(nil), want)
		}
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, p.log)
	}
	p = newServeProcess(t, nil, "--storage", storage)
	detail := ""
	for detail == "" || strings.Contains(detail, `"downloads":0,`) { // until the counts are read
		detail = get(t, p.url+"/v1/modules/net/vpc/aws/1.0.0", "")
	}
	if counted := fmt.Sprintf(`"downloads":%d,`, downloads+1); !strings.Contains(detail, counted) { // publish also fetched it
		t.Errorf("after a restart: %s, want %s", detail, counted)
	}
}

// TestServeSecondSignal: not ready in the grace period, and ended by the second.
func TestServeSecondSignal(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
	}{{"terminate", syscall.SIGTERM}, {"interrupt", syscall.SIGINT}} {
		t.Run(test.name, func(t *testing.T) {
			p := newServeProcess(t, nil, "--grace", "1h")
			if got := status(t, http.DefaultClient, http.MethodGet, p.url+"/readyz", ""); got != 200 {
				t.Fatalf("readyz: %d before the signal", got)
			}
			p.signal(t, test.signal)
			for status(t, http.DefaultClient, http.MethodGet, p.url+"/readyz", "") != 503 {
			}
			if got := status(t, http.DefaultClient, http.MethodGet, p.url+"/.well-known/terraform.json", ""); got != 200 {
				t.Errorf("another route: %d during the grace, want 200", got)
			}
			ended, end := context.WithCancel(t.Context())
			go func() { defer end(); _ = p.cmd.Wait() }() // its exit code is checked below
			// Simultaneous signals count as one, so it is sent again.
			again := time.NewTicker(50 * time.Millisecond)
			defer again.Stop()
			for ended.Err() == nil {
				_ = p.cmd.Process.Signal(test.signal) // may have ended meanwhile
				select {
				case <-again.C:
				case <-ended.Done():
				}
			}
			if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != test.signal {
				t.Errorf("it ended with %v, want the signal itself", p.cmd.ProcessState)
			}
		})
	}
}
