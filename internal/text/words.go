// SPDX-License-Identifier: Apache-2.0

package text

import "strings"

// Camel converts a word of settings, or of an answer in JSON, to the form of
// the Kubernetes API: flux-helm becomes FluxHelm, and destroy_failed becomes
// DestroyFailed.
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
