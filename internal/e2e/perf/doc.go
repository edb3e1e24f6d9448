// SPDX-License-Identifier: Apache-2.0

// Command perf measures what okara costs whom, of one program or of two in turn in
// the same run, and writes one table. It is what make bench runs:
//
//	perf [-base FILE] [-tofu FILE] [-o FILE] [-command TEXT] OKARA
//
// Figures of one machine mean little alone, so that each row has a ratio: to the base,
// or to a bare server of net/http that sends the same bytes.
package main
