// SPDX-License-Identifier: Apache-2.0

// Command perf measures the cost of okara, of one program or of two by turns in the same
// run, and writes one table. make bench runs it:
//
//	perf [-base FILE] [-tofu FILE] [-o FILE] [-command TEXT] OKARA
//
// Figures of one machine mean little alone, so each row has a ratio: to the base, or to a
// bare server of net/http that sends the same bytes.
package main
