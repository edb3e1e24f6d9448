// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package depot

const noFollow = 0 // links are refused by looking first
