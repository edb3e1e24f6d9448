// SPDX-License-Identifier: Apache-2.0

// Package text is how okara writes and reads what is for people: numbers of bytes,
// and the words of strangers. [Wait] is here too, since no package is below this one.
//
// Names, messages and documents that somebody else wrote reach a terminal, a page, a
// log line or a record only through [Line], [Block], [Excerpt] or a [Writer]. What acts
// on the reader instead of being seen becomes U+FFFD, so that a reader notices it:
//
//   - control characters, which terminals obey (C0, DEL, C1);
//   - characters that turn the direction of text, such as U+202E, so that "gpj.exe"
//     reads "exe.jpg";
//   - characters of no width, such as U+200B, which make two names look like one;
//   - bytes that are not UTF-8.
//
// A text that is quoted by the verb %q is safe already.
package text
