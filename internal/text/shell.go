// SPDX-License-Identifier: Apache-2.0

package text

import "strings"

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
