// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sums maps the names in a SHA256SUMS file to SHA-256 digests in lower-case hex.
type Sums map[string]string

// ParseSums parses lines "<hex>  <name>", as of sha256sum and GoReleaser. Names with a path, and
// two digests for one name, are refused.
func ParseSums(b []byte) (Sums, error) {
	sums := Sums{}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			continue
		}
		sum, name, ok := strings.Cut(text, " ")
		name = strings.TrimPrefix(strings.TrimPrefix(name, " "), "*")
		sum = strings.ToLower(sum)
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || name == "" {
			return nil, fmt.Errorf("line %d is not \"<sha256>  <file>\": %w", n, ErrSums)
		}
		if strings.ContainsAny(name, `/\`) {
			return nil, fmt.Errorf("line %d: %q is not a plain file name: %w", n, name, ErrSums)
		}
		if other, ok := sums[name]; ok && other != sum {
			return nil, fmt.Errorf("line %d: duplicate digest for %s: %w", n, name, ErrSums)
		}
		sums[name] = sum
	}
	return sums, nil
}

// Bytes returns the file, sorted by name.
func (s Sums) Bytes() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s  %s\n", s[name], name)
	}
	return b.Bytes()
}

// Check compares the digest of a file with its line.
func (s Sums) Check(name, sum string) error {
	switch want, ok := s[name]; {
	case !ok:
		return fmt.Errorf("%s is not listed: %w", name, ErrSums)
	case want != sum:
		return fmt.Errorf("%s has %s, expected %s: %w", name, sum, want, ErrSums)
	}
	return nil
}
