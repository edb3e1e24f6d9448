// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of okara and okara-operator, for linux/amd64
// and linux/arm64, into one bundle: a tar of an OCI image layout with the entries
// images/okara:TAG and images/okara-operator:TAG and, for each platform, an SPDX document
// with the components of the program. okara bundle load --images pushes it.
//
//	images KO FILE TAG
//
// KO is the program ko. The images contain only the program, which embeds the
// certificates of public authorities and the time zones. The base is therefore an empty
// image, which is put into ko's cache and named by digest; nothing is downloaded. Equal
// sources yield an identical file: ko sets all times to zero, go build omits paths, and a
// bundle is ordered by digest.
package main
