// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"compress/zlib"
	"errors"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// FuzzPack: accepted packs are bounded, refusals have a message.
func FuzzPack(f *testing.F) {
	const head = "PACK\x00\x00\x00\x02\x00\x00\x00"
	blob := append([]byte("\x36"), packed(f, "a blob")...)
	delta := append([]byte("\x64\x08"), packed(f, "\x06\x06\x90\x06")...) // delta of the object eight bytes before
	bomb := append([]byte("\x6b\x08"), packed(f, "\x06\xff\xff\xff\xff\x0f\x90\x06\x90\x06\x90")...)
	for _, pack := range []string{
		"", "PACK", head + "\xff", head + "\x00", head + "\x01" + string(blob), head + "\x01" + string(blob[:5]), head + "\x02" + string(blob),
		head + "\x02" + string(blob) + string(delta), head + "\x02" + string(blob) + string(bomb),
	} {
		f.Add([]byte(pack), int64(1<<20))
		f.Add([]byte(pack), int64(3))
	}
	f.Fuzz(func(t *testing.T, pack []byte, limit int64) {
		limit = max(0, min(limit, 1<<24))
		err := checkPack(bytes.NewReader(pack), limit)
		if err != nil && !errors.Is(err, oci.ErrCorrupt) && !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("%v is neither corrupt nor too large", err)
		}
		if more := checkPack(bytes.NewReader(pack), 2*limit+1); err == nil && more != nil {
			t.Errorf("allowed with %d bytes, and with more: %v", limit, more)
		}
	})
}

func packed(tb testing.TB, content string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	must.Get(z.Write([]byte(content)))(tb)
	must.Succeed(tb, z.Close())
	return b.Bytes()
}
