// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize parses a whole number of bytes with a unit, as in "20GiB" or "500MB": B, KB to TB in
// powers of 1000, KiB to TiB in powers of 1024, or none for bytes.
func ParseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTi")
	unit, ok := map[string]uint64{
		"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[text[len(number):]]
	n, err := strconv.ParseUint(number, 10, 63)
	if !ok || err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size such as 20GiB or 500MB", text)
	}
	return int64(n * unit), nil
}

// Size formats a number of bytes in powers of 1024, as in "512 B" or "1.5 MiB".
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f := float64(n)
	i := 0
	for f >= 1024 && i < len(units)-1 {
		f = f / 1024
		i = i + 1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// Clip cuts a text of more than limit bytes at a character boundary and ends it
// with "…", which is included in the limit.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Levels returns how deep the objects and lists of a JSON text nest. It allocates no
// memory, and accepts any text, so a text can be refused before it is parsed.
func Levels(json []byte) int {
	deepest := 0
	depth := 0
	quoted := false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
