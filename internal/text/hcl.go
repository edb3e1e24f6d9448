// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"
	"unicode"
)

// HCL returns s as a string literal of HCL from which no part of s can escape
// (https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md#template-expressions):
// its escapes are \n, \r, \t, \", \\, \u and \U, and "$${" and "%%{" are not
// templates. Invalid UTF-8 becomes U+FFFD.
func HCL(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '"', r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(b.String())
}

// shellSafe is the set of characters that a POSIX shell never interprets in a
// word that is not the command.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:@,+"

// ShellWord returns s as one word of a line to be pasted into a POSIX shell.
// Characters that affect the display of the line are kept, see [Hidden].
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, shellSafe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
