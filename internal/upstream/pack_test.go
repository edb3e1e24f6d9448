// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// deltaBomb is a pack of less than a kilobyte whose two deltas stand for 3.3 GB.
func deltaBomb() []byte {
	const base, copies = 1 << 16, 25_600
	p := &packWriter{objects: 3}
	p.add(3, nil, make([]byte, base))
	for i := range 2 {
		delta := append(uvarint(base), uvarint(copies*base+1)...)
		delta = append(delta, bytes.Repeat([]byte{0x80}, copies)...) // copy 64 KiB from the start
		p.add(6, p.toFirst(), append(delta, 1, byte(i)))
	}
	return p.bytes()
}

func uvarint(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// packWriter writes a pack as gitformat-pack says.
type packWriter struct {
	objects uint32
	body    []byte
}

func (p *packWriter) add(kind byte, before, content []byte) {
	n := len(content)
	b := kind<<4 | byte(n&15)
	for n >>= 4; n > 0; n >>= 7 {
		p.body = append(p.body, b|0x80)
		b = byte(n & 0x7f)
	}
	p.body = append(append(p.body, b), before...)
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(content) // into memory
	_ = z.Close()
	p.body = append(p.body, packed.Bytes()...)
}

// toFirst is how far back the first object is, as an offset of the format.
func (p *packWriter) toFirst() []byte {
	n := len(p.body)
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

func (p *packWriter) bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.objects)
	out = append(out, p.body...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// newHostileGit serves one tag and answers a fetch with a pack.
func newHostileGit(t *testing.T, pack []byte) upstream.Location {
	t.Helper()
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, line("# service=git-upload-pack\n"), "0000", line(strings.Repeat("a", 40)+" refs/tags/v1.0.0\x00agent=x ofs-delta\n"), "0000")
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		fmt.Fprint(w, line("NAK\n"))
		_, _ = w.Write(pack) // the client may end
	}))
	t.Cleanup(srv.Close)
	upstream.InstallGit(srv.Client())
	t.Cleanup(func() { upstream.InstallGit(http.DefaultClient) })
	l, err := upstream.ParseLocation("git::" + srv.URL + "/acme/vpc.git?ref=v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestGitDeltaBomb fetches a small pack that stands for 3.3 GB. It is
// refused by its sums; where those are allowed, the child dies and nobody else.
func TestGitDeltaBomb(t *testing.T) {
	pack := deltaBomb()
	if len(pack) > 16<<10 {
		t.Fatalf("%d bytes are no small pack", len(pack))
	}
	l := newHostileGit(t, pack)
	for name, most := range map[string]int64{"sums": 0, "memory": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			g := upstream.Git{MaxBytes: most}
			_, err := g.Checkout(t.Context(), l, dir)
			if !errors.Is(err, oci.ErrTooLarge) {
				t.Errorf("got %v, want ErrTooLarge", err)
			}
			if want := map[string]string{"sums": "larger than it may be", "memory": "memory"}[name]; err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // .git
				t.Errorf("written: %v, %v", left, err)
			}
		})
	}
}

// TestGitThatSendsOn fetches from a server whose pack does not end, and one whose
// list of references does not.
func TestGitThatSendsOn(t *testing.T) {
	l := newHostileGit(t, bytes.Repeat([]byte("PACK"), 1<<20))
	g := upstream.Git{MaxBytes: 1 << 20}
	if _, err := g.Checkout(t.Context(), l, t.TempDir()); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("a pack without an end: %v, want ErrTooLarge", err)
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000")
		for i := 0; r.Context().Err() == nil; i++ {
			text := fmt.Sprintf("%040x refs/tags/v%d\n", i+1, i)
			if i == 0 {
				text = fmt.Sprintf("%040x refs/tags/v0\x00agent=x\n", 1)
			}
			if _, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	upstream.InstallGit(srv.Client())
	l, err := upstream.ParseLocation("git::" + srv.URL + "/acme/vpc.git")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Tags(t.Context(), l); !errors.Is(err, oci.ErrTooLarge) {
		t.Errorf("a list without an end: %v, want ErrTooLarge", err)
	}
}

// TestGitBadPacks: what is no pack is refused, and what is one of no commit.
func TestGitBadPacks(t *testing.T) {
	whole := &packWriter{objects: 1}
	whole.add(3, nil, []byte("a blob"))
	cut := whole.bytes()[:20]
	lies := &packWriter{objects: 2}
	lies.add(3, nil, []byte("a blob"))
	for name, pack := range map[string][]byte{
		"nothing": nil, "text": []byte("<html>"), "cut": cut, "fewer objects": lies.bytes(), "no commit": whole.bytes(),
		"delta of nothing": (&packWriter{objects: 1, body: []byte{0x61, 0x05}}).bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			g := upstream.Git{}
			if _, err := g.Checkout(t.Context(), newHostileGit(t, pack), t.TempDir()); !errors.Is(err, oci.ErrCorrupt) && !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}
