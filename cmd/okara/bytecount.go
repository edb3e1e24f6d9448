// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteCount is a size as a flag or attribute has it: "20GiB", "500MB".
type byteCount int64

// Set implements pflag.Value.
func (b *byteCount) Set(text string) error {
	number := strings.TrimRight(text, "BKMGTi")
	unit, ok := map[string]uint64{
		"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[text[len(number):]]
	n, err := strconv.ParseUint(number, 10, 63)
	if !ok || err != nil || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size such as 20GiB or 500MB", text)
	}
	*b = byteCount(n * unit)
	return nil
}

// Type implements pflag.Value.
func (b *byteCount) Type() string { return "size" }

func (b *byteCount) String() string {
	if *b == 0 {
		return ""
	}
	return byteSize(int64(*b))
}
