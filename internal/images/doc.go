// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of okara and okara-operator, for
// linux/amd64 and linux/arm64, into one bundle: a tar of an OCI image layout with the
// entries images/okara:TAG and images/okara-operator:TAG and, of each platform, what
// the program is made of as an SPDX document. okara bundle load --images pushes it.
//
//	images KO FILE TAG
//
// KO is the program ko. The images have nothing below the program: it brings the
// certificates of public authorities and the time zones. So the base is an empty image,
// which is given to ko in its cache and named by digest; nothing is fetched. The same
// sources give the same file, byte for byte: ko sets all times to zero, go build leaves
// paths out, and a bundle is ordered by digest.
package main
