// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"
)

// Camel converts a word of settings, or of an answer in JSON, to the form of the Kubernetes API:
// flux-helm becomes FluxHelm, and destroy_failed becomes DestroyFailed.
func Camel(word string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(word, func(c rune) bool { return c == '-' || c == '_' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// Kebab is the inverse of Camel: FluxHelm becomes flux-helm.
func Kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// Plural formats a number with its noun: "1 version", "2 versions", "3 entries".
func Plural[N int | int64](n N, noun string) string {
	if stem, ok := strings.CutSuffix(noun, "ry"); ok && n != 1 {
		noun = stem + "rie"
	}
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
