// SPDX-License-Identifier: Apache-2.0

// Package markdown renders untrusted texts: Markdown and code.
//
// A README is Markdown with HTML in it, from the publisher of the module. It is rendered
// with goldmark and then filtered by a policy of bluemonday that allows text elements and
// nothing active: see [newPolicy]. If both have a hole, the Content-Security-Policy still
// applies. Rendering is bounded in size, depth and time, and done once per text.
//
// # Alternatives considered
//
// Rendering Markdown at publication was rejected: the rules of what is safe change, and
// then all stored HTML is outdated.
package markdown
