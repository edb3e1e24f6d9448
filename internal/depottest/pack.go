// SPDX-License-Identifier: Apache-2.0

package depottest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// DeltaBomb returns a pack of less than a kilobyte whose two deltas expand to 3.3 GB.
func DeltaBomb() []byte {
	const base, copies = 1 << 16, 25_600
	p := &Pack{Objects: 3}
	p.Add(3, nil, make([]byte, base))
	for i := range 2 {
		delta := append(uvarint(base), uvarint(copies*base+1)...)
		delta = append(delta, bytes.Repeat([]byte{0x80}, copies)...) // copy 64 KiB from the start
		p.Add(6, p.ToFirst(), append(delta, 1, byte(i)))
	}
	return p.Bytes()
}

func uvarint(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// Pack builds a pack file in the format of gitformat-pack.
type Pack struct {
	Objects uint32
	Body    []byte
}

// Add adds an object of a type, with the bytes that precede its content.
func (p *Pack) Add(kind byte, before, content []byte) {
	n := len(content)
	b := kind<<4 | byte(n&15)
	for n >>= 4; n > 0; n >>= 7 {
		p.Body = append(p.Body, b|0x80)
		b = byte(n & 0x7f)
	}
	p.Body = append(append(p.Body, b), before...)
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(content) // never fails: writes to memory
	_ = z.Close()
	p.Body = append(p.Body, packed.Bytes()...)
}

// ToFirst returns the encoded offset back to the first object.
func (p *Pack) ToFirst() []byte {
	n := len(p.Body)
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

// Bytes returns the whole pack.
func (p *Pack) Bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.Objects)
	out = append(out, p.Body...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// GitHandler serves a repository with the tag v1.0.0 over git's HTTP protocol, and
// answers each fetch with pack. It counts the fetches if count is not nil.
func GitHandler(pack []byte, count *atomic.Int64) http.Handler {
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, line("# service=git-upload-pack\n"), "0000", line(strings.Repeat("a", 40)+" refs/tags/v1.0.0\x00agent=x ofs-delta\n"), "0000")
			return
		}
		if count != nil {
			count.Add(1)
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		fmt.Fprint(w, line("NAK\n"))
		_, _ = w.Write(pack) // the client may disconnect
	})
}
