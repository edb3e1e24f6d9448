// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

// NoFollow does nothing here: links are refused by looking first.
const NoFollow = 0
