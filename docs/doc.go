// SPDX-License-Identifier: Apache-2.0

// Package docs holds okara's documentation as the program carries it: the Markdown files of
// this folder. Package internal/manual reads it.
package docs

import "embed"

// Files are the pages, by their path: use/start.md.
//
//go:embed *.md kubernetes operate publish reference use
var Files embed.FS
