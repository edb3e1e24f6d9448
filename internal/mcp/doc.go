// SPDX-License-Identifier: Apache-2.0

// Package mcp answers assistants about modules and providers, by the Model Context Protocol.
//
// # Protocol
//
// It is the part of the protocol that tools need: initialize, ping, tools/list and tools/call, as
// lines on standard input and output ([Serve]) or as the bodies of POST requests ([Answer]). There
// is no session, and no message that the server sends by itself. The official SDK takes 1.6 MB of
// the program and ten packages with work at each start, more than this package has lines; its
// client is the judge of the tests in internal/conformance.
//
// # Answers
//
// A tool reads through a [Source], which has what one caller may read. What it may not read is
// answered as what does not exist, and is never among the near names. Some clients show a model
// only the structured content, others only the text, so both have all facts, and together at most
// [MaxAnswer] bytes. What does not fit is on further pages.
//
// # Texts of publishers
//
// Descriptions, READMEs and messages are from publishers, and may address the model that reads
// them. They are in fields of their own, without control characters, under a note that they are
// data; no name, title or description of a tool has any of them. No tool changes anything.
package mcp
