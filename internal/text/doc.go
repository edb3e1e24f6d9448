// SPDX-License-Identifier: Apache-2.0

// Package text formats and parses text for users: numbers of bytes, and
// untrusted text. [Wait] is here too, since no package is below this one.
//
// Names, messages and documents from others reach a terminal, a page, a log
// line or a record only through [Line], [Block], [Excerpt] or a [Writer].
// Characters that affect the display instead of being visible are replaced by
// U+FFFD, so that a reader notices them:
//
//   - control characters, which terminals interpret (C0, DEL, C1);
//   - characters that turn the direction of text, such as U+202E, so that "gpj.exe"
//     reads "exe.jpg";
//   - characters of no width, such as U+200B, which make two names look like one;
//   - bytes that are not UTF-8.
//
// A text that is quoted with the verb %q is already safe.
package text
