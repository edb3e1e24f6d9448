// SPDX-License-Identifier: Apache-2.0

// Package markdown renders untrusted texts: Markdown and code.
//
// A README is Markdown with HTML in it, from the publisher of the module. It is rendered
// with goldmark and then filtered by a policy of bluemonday that allows text elements and
// nothing active: see [newPolicy]. If both have a hole, the Content-Security-Policy still
// applies. It looks as on GitHub, with alerts, footnotes and emoji names. IDs get a prefix,
// so that links within the text work and do not meet those of the page.
//
// Rendering is bounded in size, depth and work, not in time, and done once per text. What
// goldmark 1.8.7 lacks is a bound where a text makes it take more than linear time: see
// [boundedParser].
//
// # Alternatives considered
//
// Rendering Markdown at publication was rejected: the rules of what is safe change, and
// then all stored HTML is outdated.
package markdown
