// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// attackLimits limits the attacked process, to protect the machine: 8 GiB of address space
// and 4096 files.
const attackLimits = `ulimit -v 8388608; ulimit -n 4096; exec "$0" "$@"`

// BenchmarkAttacks attacks a process on loopback and prints the cost: its largest resident
// size, and its maximum use of disk. OKARA_TEST_OKARA names the program, such as an older
// release; by default it is built from this tree.
func BenchmarkAttacks(b *testing.B) {
	if testing.Short() {
		b.Skip("tests attack with less")
	}
	for _, attack := range []struct {
		name string
		run  func(b *testing.B) damage
	}{
		{"1-multipart-without-token", attackMultipart},
		{"1-forms-without-token", attackForms},
		{"2-nested-hcl", attackNested},
		{"6-directories", attackDirectories},
		{"7-ignore-rules", attackIgnore},
		{"8-states-that-expand", attackStates},
		{"12-webhooks-that-stall", attackWebhooks},
		{"14-bundle-that-is-a-ladder", attackLadder},
		{"18-downloads-of-one-client", attackDownloads},
		{"20-readers-that-stall", attackReaders},
		{"24-pruned-states", attackDisk},
	} {
		b.Run(attack.name, func(b *testing.B) {
			var o damage
			for b.Loop() {
				o = attack.run(b)
			}
			b.ReportMetric(0, "ns/op") // hides a meaningless figure
			b.ReportMetric(float64(o.before>>10), "MiB-idle")
			b.ReportMetric(float64(o.peak>>10), "MiB-peak")
			b.ReportMetric(float64(o.disk)/(1<<20), "MiB-disk")
			b.ReportMetric(o.took.Seconds(), "s")
			b.Logf("%s", o.text)
		})
	}
}

// damage is the cost of an attack.
type damage struct {
	before, peak int64         // KiB, resident
	disk         int64         // bytes, maximum at any time
	took         time.Duration // until the attacker was done
	text         string
}

// victim is a process under attack.
type victim struct {
	url     string // of a server
	storage string
	temp    string
	cmd     *exec.Cmd
	ended   chan struct{}
	log     lockedBuffer
	idle    int64
	peak    atomic.Int64 // KiB
	disk    atomic.Int64 // bytes of temp
	begin   time.Time
}

// attackedProgram returns the program to attack.
func attackedProgram(b *testing.B) string {
	b.Helper()
	if name := os.Getenv("OKARA_TEST_OKARA"); name != "" {
		return name
	}
	name, err := exec.LookPath("okara")
	if err != nil {
		b.Fatal(err)
	}
	return name
}

// newVictim starts the program and measures it until it ends.
func newVictim(b *testing.B, args ...string) *victim {
	b.Helper()
	v := &victim{temp: b.TempDir(), ended: make(chan struct{}), begin: time.Now()}
	v.cmd = exec.Command("sh", append([]string{"-c", attackLimits, attackedProgram(b)}, args...)...)
	v.cmd.Env = []string{"HOME=" + b.TempDir(), "TMPDIR=" + v.temp}
	v.cmd.WaitDelay = time.Second
	out, w := io.Pipe()
	v.cmd.Stdout, v.cmd.Stderr = w, &v.log
	if err := v.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, out)
	}()
	var running sync.WaitGroup
	running.Go(func() {
		_ = v.cmd.Wait()
		w.Close()
		close(v.ended)
	})
	running.Go(func() { v.watch(time.Millisecond, v.measureMemory) })
	running.Go(func() { v.watch(20*time.Millisecond, v.measureDisk) })
	b.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		running.Wait()
	})
	if args[0] == "serve" {
		v.url = strings.TrimSpace(strings.TrimPrefix(<-lines, "listening on "))
		if v.url == "" {
			b.Fatalf("the server ended: %s", v.log.String())
		}
		v.measureMemory()
		v.idle, v.begin = v.peak.Load(), time.Now()
	}
	return v
}

// newServed starts okara serve on its own folder with one token for all states and modules.
func newServed(b *testing.B, args ...string) *victim {
	b.Helper()
	storage := b.TempDir()
	return serveOn(b, storage, args...)
}

func serveOn(b *testing.B, storage string, args ...string) *victim {
	b.Helper()
	tokens := writeFile(b, "tokens", []byte(serveToken+" publish:module:** write:state:**\n"))
	v := newVictim(b, append([]string{"serve", "--listen", "127.0.0.1:0", "--storage", storage, "--token-file", tokens}, args...)...)
	v.storage = storage
	return v
}

func (v *victim) watch(each time.Duration, measure func()) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-v.ended:
			return
		case <-tick.C:
			measure()
		}
	}
}

func (v *victim) measureMemory() {
	if mark, ok := highWater(v.cmd.Process.Pid); ok && mark > v.peak.Load() {
		v.peak.Store(mark)
	}
}

func (v *victim) measureDisk() {
	if n := diskUsage(v.temp); n > v.disk.Load() {
		v.disk.Store(n)
	}
}

// damage returns the cost of the attack so far.
func (v *victim) damage(text string) damage {
	took := time.Since(v.begin)
	v.measureMemory()
	v.measureDisk()
	select {
	case <-v.ended:
		text += "; the process ended: " + v.cmd.ProcessState.String()
	case <-time.After(100 * time.Millisecond):
	}
	return damage{before: v.idle, peak: v.peak.Load(), disk: v.disk.Load(), took: took, text: text}
}

// stop ends a server, and reports whether it did so on SIGTERM.
func (v *victim) stop(within time.Duration) bool {
	_ = v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.ended:
		return true
	case <-time.After(within):
		_ = v.cmd.Process.Kill()
		<-v.ended
		return false
	}
}

// diskUsage returns how many bytes of a disk a folder takes.
func diskUsage(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			n += s.Blocks * 512
		}
		return nil
	})
	return n
}

func writeFile(b *testing.B, name string, text []byte) string {
	b.Helper()
	name = filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return name
}

// attacker sends requests from one address of this machine.
type attacker struct{ http.Client }

// from returns an attacker at 127.0.0.n, whose sockets buffer almost nothing that it does
// not read.
func from(b *testing.B, n byte) *attacker {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	return &attacker{http.Client{Transport: transport, Timeout: 5 * time.Minute}}
}

// send sends a request and returns the response with its body unread, or nil without a
// response.
func (a *attacker) send(b *testing.B, method, url, token string, body io.Reader, header ...string) *http.Response {
	r, err := http.NewRequestWithContext(b.Context(), method, url, body)
	if err != nil {
		b.Error(err)
		return nil
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := a.Do(r)
	if err != nil {
		return nil
	}
	return resp
}

// statusOf returns the status of a response, whose body it reads to its end; 0 without one.
func statusOf(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// repeated returns n bytes of a repeated block.
func repeated(block string, n int64) io.Reader {
	return io.LimitReader(&endless{block: bytes.Repeat([]byte(block), 64<<10/len(block))}, n)
}

type endless struct {
	block []byte
	rest  bytes.Reader
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest.Len() == 0 {
		e.rest.Reset(e.block)
	}
	return e.rest.Read(p)
}
