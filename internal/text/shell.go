// SPDX-License-Identifier: Apache-2.0

package text

import "strings"

// shellSafe are the characters that a POSIX shell takes as they are, wherever they stand
// in a word that is no command.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:@,+"

// ShellWord is s as one word of a line to be pasted into a POSIX shell. What acts on the
// reader of the line is still in it, see [Hidden].
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, shellSafe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
