#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: github.com/klauspost/compress 1.20.3, the zstd of Go's registries, caches and databases.
# Guess: a frame names the size of its content, so a decoder whose WithDecoderMaxMemory is that size
#   decodes what EncodeAll of the same library made, whatever the size.
# Happens: content of at most 1,024 bytes gets a frame with a window of its own, and a window
#   larger than the bound is refused as "window size exceeded", which means corrupt data elsewhere.
#   Content of 1,025 bytes and more has no such window, and is decoded.
# Matters: who bounds the memory by the size that a frame announces, as its documentation
#   suggests, reads everything in tests and loses what happens to be small.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
cat >main.go <<'GO'
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// refused returns the sizes that are refused, as the first and the last, and how many there are.
func refused(bound func(n int) uint64) (first, last, count int) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	for n := 1; n <= 4096; n++ {
		frame := w.EncodeAll(bytes.Repeat([]byte("state "), n)[:n], nil)
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(bound(n)))
		if err != nil {
			panic(err)
		}
		_, err = r.DecodeAll(frame, nil)
		r.Close()
		if errors.Is(err, zstd.ErrWindowSizeExceeded) {
			if count == 0 {
				first = n
			}
			last = n
			count++
		} else if err != nil {
			panic(err)
		}
	}
	return first, last, count
}

func main() {
	first, last, count := refused(func(n int) uint64 { return uint64(n) })
	fmt.Printf("bounded by the content: %d sizes of 1 to 4096 are refused, from %d to %d\n", count, first, last)
	_, _, more := refused(func(int) uint64 { return 64 << 10 })
	fmt.Printf("bounded by 64 KiB:      %d\n", more)
	if last != 1024 || count == 0 || more != 0 {
		os.Exit(1)
	}
}
GO
export GOFLAGS=-mod=mod
go mod init example.com/finding 2>log && go get github.com/klauspost/compress@v1.20.3 2>>log || { cat log; exit 1; }
timeout 600 go run .
