// SPDX-License-Identifier: Apache-2.0

// Package markdown renders what others wrote: texts in Markdown, and code.
//
// A README is Markdown with HTML in it, from whoever published the module. It goes
// through goldmark, then through a policy of bluemonday that lets elements of text
// through and nothing that acts: see [newPolicy]. What a hole in both would let
// through, the Content-Security-Policy stops. Rendering is bounded in size, depth
// and time, and done once for each text.
//
// # Alternatives considered
//
// Rendering Markdown when it is published: the rules of what is safe change, and then all
// that is stored is old.
package markdown
